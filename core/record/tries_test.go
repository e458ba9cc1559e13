package record_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/core/record"
)

const exit75 = `["OpExecError", ["command exited with status 75", {"exit_status": 75}]]`

func try(start int64, op int) record.Try {
	return record.Try{Start: start, Op: op, Result: json.RawMessage(exit75), BeganUs: start * 10, EndedUs: start*10 + 5, LogTo: start}
}

// withTries is a record with tries, as a daemon has written it.
func withTries(t *testing.T, tries ...record.Try) record.Record {
	t.Helper()
	encoded, err := json.Marshal(map[string]any{"name": "nightly", "tries": tries, "due": 77})
	require.NoError(t, err)
	r, err := record.Decode(encoded)
	require.NoError(t, err)
	return r
}

func TestTheTriesInARecord(t *testing.T) {
	r := withTries(t, try(1, 0), try(2, 1), try(3, 1))
	require.Len(t, r.Tries(), 3)
	require.Equal(t, []int{1, 2, 0}, []int{r.TriesOf(0), r.TriesOf(1), r.TriesOf(2)})
	require.JSONEq(t, exit75, string(r.Tries()[2].Result))
	require.Equal(t, "exit 75", r.Tries()[2].Words())
	require.EqualValues(t, 77, r.DueUs())
	require.Empty(t, record.Record{}.Tries())
	require.Zero(t, record.Record{}.DueUs())
}

// A record that another version has written badly delays nothing and counts no try.
func TestOddTries(t *testing.T) {
	for _, text := range []string{`{}`, `{"tries": 3, "due": "x"}`, `{"tries": null, "due": -5}`, `{"tries": [7], "due": null}`} {
		r, err := record.Decode([]byte(text))
		require.NoError(t, err)
		require.Zero(t, r.TriesOf(0), text)
		require.Zero(t, r.DueUs(), text)
	}
}

// The end of a try goes into the record once, and lets the job wait for its next try; the log says so.
func TestTheEndOfATry(t *testing.T) {
	j := jobtest.Running(1)
	j.Ops[0].Input = json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "retry": {"times": 2, "delay": 10}}`)
	j.Livelock = paths.JobLivelockName(7, 5)
	op := &j.Ops[0]
	op.Start, op.Exec = job.Timestamp{Sec: 1}, job.Timestamp{Sec: 3, Usec: 4}
	op.EndTry(json.RawMessage(exit75), job.Timestamp{Sec: 9})
	r := record.EndTry(record.Record{}, j, false, job.Timestamp{Sec: 10})
	require.True(t, j.IsPending())
	require.False(t, paths.IsJobLivelock(j.Livelock), "it names no process")
	require.Len(t, r.Tries(), 1)
	got := r.Tries()[0]
	require.Equal(t, []int64{3_000_004, 9_000_000, j.LastSerial()}, []int64{got.BeganUs, got.EndedUs, got.LogTo})
	require.InDelta(t, 19_000_000, r.DueUs(), 2_000_000, "the pause begins with the end of the try")
	entries := j.LogAfter(0)
	require.Equal(t, job.LogTry, entries[len(entries)-1].Type)
}

// The end of a job names the number of tries of the opcode that has failed, the last one included.
// A time of a job is another one than that of its next try.
func TestTheTimeInARecord(t *testing.T) {
	r := record.Record{}.WithDue(7)
	require.JSONEq(t, `{"at": 7}`, string(r.Encode()))
	require.Equal(t, []int64{7, 7}, []int64{r.DueUs(), r.AtUs()})
	tried, err := record.Decode([]byte(`{"at": 7, "due": 9}`))
	require.NoError(t, err)
	tried = tried.WithDue(11)
	require.Equal(t, []int64{11, 7}, []int64{tried.DueUs(), tried.AtUs()})
	odd, err := record.Decode([]byte(`{"at": -7}`))
	require.NoError(t, err)
	require.Zero(t, odd.DueUs())
}

func TestTheResultCountsTries(t *testing.T) {
	for tries, want := range map[int64]string{0: "exit 75", 1: "exit 75 (2 tries)", 5: "exit 75 (6 tries)"} {
		var list []record.Try
		for start := range tries {
			list = append(list, try(start+1, 0))
		}
		require.Equal(t, want, withTries(t, list...).Result(failed(exit75)), fmt.Sprint(tries))
	}
	require.Equal(t, "exit 75", withTries(t, try(1, 1)).Result(failed(exit75)), "tries of another opcode")
}
