package job

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// From the end of a try until the next one an opcode is waiting; the times tell whether the daemon has noted the try.
func TestAnOpcodeBetweenTwoTries(t *testing.T) {
	j := New(7, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_X"}`), json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "retry": 3}`)}, []int{0, 0},
		Timestamp{Sec: 1}, "")
	require.True(t, j.IsPending())
	require.False(t, j.TryEnded())
	j.Ops[0].Status = Success
	op := &j.Ops[1]
	require.Panics(t, op.AwaitTry)

	op.Take(Begin)
	op.Start = Timestamp{Sec: 2}
	require.False(t, j.IsPending(), "a process waits for the locks")
	op.Take(Execute)
	op.Exec = Timestamp{Sec: 3}
	op.EndTry(json.RawMessage(`["OpExecError", ["x", {"exit_status": 1}]]`), Timestamp{Sec: 4})
	require.Equal(t, Waiting, j.Status())
	require.True(t, j.TryEnded())
	require.False(t, j.IsPending(), "the daemon has not noted the try")

	decoded, err := Decode(Encode(j))
	require.NoError(t, err)
	require.True(t, decoded.TryEnded(), "the file says so")

	op.AwaitTry()
	require.False(t, j.TryEnded())
	require.True(t, j.IsPending())
	require.Equal(t, Op{Input: op.Input, Status: Waiting}, *op)
	decoded, err = Decode(Encode(j))
	require.NoError(t, err)
	require.True(t, decoded.IsPending(), "the file says so")

	op.Take(Begin)
	require.Equal(t, Waiting, op.Status)
}

// A waiting opcode without start of a job that is never tried again was written by another program: it does not run again.
func TestAnOpcodeWithoutAPolicyAwaitsNoTry(t *testing.T) {
	j := New(7, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND"}`)}, []int{0}, Timestamp{Sec: 1}, "")
	j.Ops[0].Status = Waiting
	require.False(t, j.IsPending())
}
