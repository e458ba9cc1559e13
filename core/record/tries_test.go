package record_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/record"
)

const exit75 = `["OpExecError", ["command exited with status 75", {"exit_status": 75}]]`

func try(start int64, op int) record.Try {
	return record.Try{Start: start, Op: op, Result: json.RawMessage(exit75), BeganUs: start * 10, EndedUs: start*10 + 5, LogTo: start}
}

func TestTheTriesInARecord(t *testing.T) {
	r := record.Record{}.WithName("nightly").WithTry(try(1, 0)).WithTry(try(2, 1)).WithTry(try(3, 1)).WithDue(time.UnixMicro(77))
	require.Equal(t, r, r.WithTry(try(3, 1)), "a try that is reported again is the same one")
	require.Empty(t, record.Record{}.Tries(), "a record is never changed")

	r, err := record.Decode(r.Encode())
	require.NoError(t, err)
	require.Equal(t, "nightly", r.Name())
	require.Len(t, r.Tries(), 3)
	require.Equal(t, []int{1, 2, 0}, []int{r.TriesOf(0), r.TriesOf(1), r.TriesOf(2)})
	require.JSONEq(t, exit75, string(r.Tries()[2].Result))
	require.Equal(t, "exit 75", r.Tries()[2].Words())
	require.EqualValues(t, 77, r.DueUs())
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

func TestTheTryThatHasEnded(t *testing.T) {
	j := jobtest.Running(1)
	j.AppendLog(0, job.Timestamp{Sec: 2}, "message", json.RawMessage(`"x"`))
	op := &j.Ops[0]
	op.Start, op.Exec = job.Timestamp{Sec: 1}, job.Timestamp{Sec: 3, Usec: 4}
	op.EndTry(json.RawMessage(exit75), job.Timestamp{Sec: 9})
	want := record.Try{Start: 5, Result: op.Result, BeganUs: 3_000_004, EndedUs: 9_000_000, LogTo: j.LastSerial()}
	require.Equal(t, want, record.EndedTry(j, 5))
	op.Exec = job.Timestamp{} // the process has died while it waited for locks
	want.BeganUs = 1_000_000
	require.Equal(t, want, record.EndedTry(j, 5))
}

// The end of a job names the number of tries of the opcode that has failed, the last one included.
func TestTheResultCountsTries(t *testing.T) {
	for tries, want := range map[int64]string{0: "exit 75", 1: "exit 75 (2 tries)", 5: "exit 75 (6 tries)"} {
		r := record.Record{}
		for start := range tries {
			r = r.WithTry(try(start+1, 0))
		}
		require.Equal(t, want, r.Result(failed(exit75)), fmt.Sprint(tries))
	}
	require.Equal(t, "exit 75", record.Record{}.WithTry(try(1, 1)).Result(failed(exit75)), "tries of another opcode")
}
