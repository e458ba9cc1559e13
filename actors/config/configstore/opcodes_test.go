package configstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/history"
	"lockstep/core/config/reserve"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/paths"
)

// The history names the opcode that a job executed when it made the change, also if the job is archived; without a readable file it
// names the job alone.
func TestHistoryNamesTheOpcode(t *testing.T) {
	onBench(t, func(b *bench) {
		at := func(second int64) job.Timestamp { return job.TimestampOf(time.Unix(second, 0)) }
		ops := []job.Op{{Input: []byte(`{"OP_ID":"OP_FIRST"}`), Status: job.Success, Start: at(1), Exec: at(2), End: at(3)},
			{Input: []byte(`{"OP_ID":"OP_SECOND"}`), Status: job.Running, Start: at(4), Exec: at(4)},
			{Input: []byte(`{"OP_ID":"OP_THIRD"}`), Status: job.Queued}}
		file := job.Encode(&job.Job{ID: 7, Received: at(1), Ops: ops})
		change := func(id int64) {
			r := b.record() // at second 5
			r.Caller, r.Job = reserve.Caller{Known: true, Owner: lock.JobOwner(job.ID(id), "l", 70)}, id
			b.send(r)
			b.expectAppended()
			require.Nil(t, b.flush())
		}
		b.overwrite(paths.JobPath(7), file)
		change(7)
		b.overwrite(paths.JobPath(8), []byte("{"))
		change(8)
		change(9)
		var told []string
		entries, _ := history.Read([]byte(b.content(paths.ConfigHistoryPath)))
		for _, e := range entries {
			told = append(told, e.Client.Opcode)
		}
		require.Equal(t, []string{"OP_SECOND", "", ""}, told)
		require.EqualValues(t, 9, entries[2].Client.Job)
	})
}
