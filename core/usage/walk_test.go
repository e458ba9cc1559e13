package usage

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/record"
)

// fileOf is the file of a job, submitted at a second, with one command.
func fileOf(id, received int64, status job.Status, result string) []byte {
	at := func(s int64) job.Timestamp { return job.Timestamp{Sec: received + s} }
	op := job.Op{Status: status, Input: json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "reason": [["lockstep:user", "uid=1000(alice), pid=7", 1]]}`)}
	if status.Final() {
		op.Start, op.Exec, op.End, op.Result = at(1), at(3), at(10), json.RawMessage(result)
	}
	return job.Encode(&job.Job{ID: job.ID(id), Received: at(0), Ops: []job.Op{op}})
}

func TestAJobFromItsFiles(t *testing.T) {
	w := NewWalk(Query{})
	require.True(t, w.Take(9, fileOf(9, 100, job.Error, `["OpExecError", ["exit 1", {"usage": {"cpu_seconds": 2, "memory_peak_bytes": 70, "memory_of": "group"}}]]`),
		[]byte(`{"name": "nightly", "at": 101000000, "tries": [
			{"start": 1, "op": 0, "began": 102000000, "ended": 103000000, "log_to": 1,
			 "result": ["OpExecError", ["exit 1", {"usage": {"cpu_seconds": 1.5, "memory_peak_bytes": 90, "memory_of": "process"}}]]},
			{"start": 2, "op": 0, "began": 104000000, "ended": 105000000, "log_to": 2, "result": ["OpExecError", ["lost", {}]]}]}`)))
	require.True(t, w.Take(8, fileOf(8, 100, job.Queued, ""), []byte("no record")))
	require.True(t, w.Take(7, []byte("no job"), nil))
	require.Equal(t, Page{
		Jobs: []Job{
			{ID: 9, Name: "nightly", User: "alice", Status: "error", ReadyUS: 101e6, Ops: []Op{{ID: "OP_RUN_COMMAND", Failed: true, BeganUS: 102e6,
				EndedUS: 110e6, Usage: &job.Usage{CPUSeconds: 3.5, MemoryPeakBytes: 90, MemoryOf: job.MemoryOfProcess}}}},
			{ID: 8, User: "alice", Status: "queued", ReadyUS: 100e6, Ops: []Op{{ID: "OP_RUN_COMMAND"}}},
		},
		OldestUS: 100e6, Examined: 3, Unreadable: 1,
	}, w.Page())
}

// A walk goes on over single jobs that are older, whose submitters' clock was behind, and ends after many.
func TestAWalkEndsWithJobsThatAreOlder(t *testing.T) {
	w := NewWalk(Query{SinceUS: 1000e6})
	id := int64(10_000)
	take := func(received int64) bool {
		id--
		return w.Take(id, fileOf(id, received, job.Success, "{}"), nil)
	}
	for range olderRun - 1 {
		require.True(t, take(999))
	}
	require.True(t, take(1000))
	for range olderRun - 1 {
		require.True(t, take(999))
	}
	require.False(t, take(500))
	page := w.Page()
	require.Len(t, page.Jobs, 1)
	require.Equal(t, []int64{0, 500e6, 2 * olderRun}, []int64{page.Cursor, page.OldestUS, int64(page.Examined)})
}

// A page ends after so many jobs, and after so many bytes; the next one begins behind it.
func TestAPageIsBounded(t *testing.T) {
	w := NewWalk(Query{})
	for id := int64(20_000); id > 20_000-pageJobs+1; id-- {
		require.True(t, w.Take(id, fileOf(id, 1, job.Success, "{}"), nil))
	}
	require.False(t, w.Miss(15_001))
	require.Equal(t, int64(15_001), w.Page().Cursor)

	large := []byte(fmt.Sprintf(`{"note": %q}`, strings.Repeat("x", pageBytes/4)))
	_, err := record.Decode(large)
	require.NoError(t, err)
	for since, cursor := range map[int64]int64{0: 7, 2e6: 0} { // all jobs of a full page are older: the walk ends
		w = NewWalk(Query{SinceUS: since, Cursor: 11})
		require.False(t, w.Wants(11))
		for _, id := range []int64{10, 9, 8} {
			require.True(t, w.Wants(id))
			require.True(t, w.Take(id, fileOf(id, 1, job.Success, "{}"), large))
		}
		require.False(t, w.Take(7, fileOf(7, 1, job.Success, "{}"), large))
		require.Equal(t, cursor, w.Page().Cursor)
	}
}
