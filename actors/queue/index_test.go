package queue

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/messages"
)

func infoOf(id int64, status job.Status) *messages.JobInfo {
	return &messages.JobInfo{Id: id, Status: int32(status), Encoded: []byte("x")}
}

func TestTheIndexCountsItsJobs(t *testing.T) {
	x := newIndex(Secrets{2: {json.RawMessage("1")}})
	for id := range int64(4) {
		x.put(infoOf(id+1, job.Queued), pending)
	}
	require.Equal(t, map[int32]int64{int32(job.Queued): 4}, x.byStatus)
	require.EqualValues(t, 1, x.withSecrets)

	x.setStage(x.get(2), active)
	require.Zero(t, x.withSecrets, "only pending jobs count")
	x.setInfo(x.get(2), infoOf(2, job.Running))
	x.setStage(x.get(1), active)
	require.Equal(t, map[int32]int64{int32(job.Queued): 3, int32(job.Running): 1}, x.byStatus)
	require.Equal(t, []*messages.JobInfo{x.get(1).info, x.get(2).info}, x.activeJobs())

	x.setInfo(x.get(2), infoOf(2, job.Success))
	x.setStage(x.get(2), final)
	require.Len(t, x.finals, 1)
	require.Len(t, x.unfinished(), 3)
	x.remove(2)
	require.Empty(t, x.finals)
	require.Equal(t, map[int32]int64{int32(job.Queued): 3}, x.byStatus)
	require.True(t, x.row(2).Unknown)
	require.Len(t, x.rows(), 3)
}

// Jobs are counted by the status that clients see, in each status, with each wait before the start, and after each
// change of it.
func TestTheIndexCountsWhatClientsSee(t *testing.T) {
	x := newIndex(nil)
	want := map[int32]int64{}
	for status := job.Queued; status <= job.Error; status++ {
		for _, wait := range []messages.StartWait{messages.StartWait_NOT_WAITING, messages.StartWait_FOR_JOBS, messages.StartWait_FOR_LOCKS} {
			info := infoOf(int64(len(x.jobs)+1), status)
			x.put(infoOf(info.Id, status), pending)
			info.Wait = wait
			x.setInfo(x.get(info.Id), info)
			want[int32(query.ClientStatus(info))]++
		}
	}
	require.Equal(t, want, x.byStatus)
	require.EqualValues(t, 5, want[int32(job.Waiting)])
	require.EqualValues(t, 1, want[int32(job.Queued)])
	require.EqualValues(t, 1, x.marked)
	x.remove(3)
	require.Zero(t, x.marked)
}

// Removed ids do not stay in the order for ever, and the order stays ascending.
func TestTheOrderIsCompacted(t *testing.T) {
	x := newIndex(nil)
	const n = 1000
	for id := range int64(n) {
		x.put(infoOf(id, job.Success), final)
	}
	for id := range int64(n) {
		if id%10 != 0 {
			x.remove(id)
			require.Less(t, len(x.order), 2*len(x.jobs)+64+1)
		}
	}
	last := int64(-1)
	for id := range x.all() {
		require.Greater(t, id, last)
		require.Zero(t, id%10)
		last = id
	}
	require.EqualValues(t, 990, last)
}

// Windows over the index have every job once, also when jobs come and go between them.
func TestWindowsOfTheIndex(t *testing.T) {
	x := newIndex(Secrets{})
	for id := range int64(100) {
		x.put(infoOf(id+1, job.Queued), pending)
	}
	x.remove(100)
	x.remove(50)
	ids := func(rows []*messages.JobRow) (ids []int64) {
		for _, row := range rows {
			ids = append(ids, row.Id)
		}
		return ids
	}
	require.Equal(t, []int64{99, 98, 97}, ids(x.window(0, 3, true)))
	require.Equal(t, []int64{51, 49, 48}, ids(x.window(52, 3, true)))
	require.Equal(t, []int64{49, 48, 47}, ids(x.window(50, 3, true)), "the job of the cursor is gone")
	require.Equal(t, []int64{1}, ids(x.window(2, 3, true)))
	require.Empty(t, x.window(1, 3, true))
	require.Equal(t, []int64{1, 2, 3}, ids(x.window(0, 3, false)))
	require.Equal(t, []int64{51, 52}, ids(x.window(50, 2, false)))
	require.Equal(t, []int64{99}, ids(x.window(98, 5, false)))
	require.Empty(t, x.window(99, 5, false))
}
