package opcode_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

func command(keep string, status job.Status, result string) job.Op {
	return job.Op{Input: json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "keep_output": ` + keep + `}`), Status: status, Result: json.RawMessage(result)}
}

func cut(op job.Op, kind string, payload json.RawMessage) job.Op {
	op.Log = append(op.Log, job.LogEntry{Type: kind, Payload: payload})
	return op
}

const (
	keptFive  = `{"exit_status": 0, "kept": {"stdout": {"bytes": 5, "missing": 0}, "stderr": {"bytes": 2, "missing": 9}}}`
	failedTwo = `["OpExecError", ["exit status 1", {"exit_status": 1, "kept": {"stdout": {"bytes": 2}, "stderr": {"bytes": -1}}}]]`
	died      = `"detected death of job 7"`
)

// What a job says of its kept output: the results of what has ended, and the beginning of what runs or was cut off.
func TestKeptOf(t *testing.T) {
	received, begun := job.Timestamp{Sec: 1000, Usec: 5}, job.Timestamp{Sec: 2000}
	vouched := func(stdout, stderr int64) opcode.KeptPart {
		return opcode.KeptPart{Vouched: true, Stdout: stdout, Stderr: stderr}
	}
	open := opcode.KeptPart{}
	delay := job.Op{Input: json.RawMessage(`{"OP_ID": "OP_TEST_DELAY"}`), Status: job.Running}
	first := command("null", job.Success, keptFive)
	first.Start = begun
	asMessage, note := job.AsMessage(job.LogCut, json.RawMessage("null"))
	for name, c := range map[string]struct {
		ops       []job.Op
		byDefault bool
		want      opcode.Kept
	}{
		"no command":         {[]job.Op{delay}, true, opcode.Kept{}},
		"not kept":           {[]job.Op{command("false", job.Running, "null")}, true, opcode.Kept{}},
		"not kept, ended":    {[]job.Op{command("false", job.Success, `{"exit_status": 0}`)}, true, opcode.Kept{Ended: true}},
		"no word of it":      {[]job.Op{command("null", job.Success, `{}`)}, false, opcode.Kept{Ended: true, Parts: []opcode.KeptPart{vouched(0, 0)}}},
		"queued":             {[]job.Op{command("true", job.Queued, "null")}, false, opcode.Kept{Surely: true, Parts: []opcode.KeptPart{open}}},
		"runs":               {[]job.Op{command("null", job.Running, "null")}, false, opcode.Kept{Parts: []opcode.KeptPart{open}}},
		"runs, by default":   {[]job.Op{command("null", job.Running, "null")}, true, opcode.Kept{Surely: true, Parts: []opcode.KeptPart{open}}},
		"canceled":           {[]job.Op{command("true", job.Canceled, "null")}, false, opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{vouched(0, 0)}}},
		"its process died":   {[]job.Op{cut(command("true", job.Error, died), job.LogCut, nil)}, false, opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{open}}},
		"in Ganeti's log":    {[]job.Op{cut(command("true", job.Error, died), asMessage, note)}, false, opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{open}}},
		"it had no process":  {[]job.Op{command("true", job.Error, died)}, false, opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{vouched(0, 0)}}},
		"several opcodes":    {[]job.Op{first, delay, command("false", job.Error, failedTwo)}, false, opcode.Kept{Ended: true, Surely: true, Parts: []opcode.KeptPart{vouched(5, 2), open, vouched(2, 0)}}},
		"another form of it": {[]job.Op{command("null", job.Success, `["kept"]`)}, false, opcode.Kept{Ended: true, Parts: []opcode.KeptPart{vouched(0, 0)}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.want.Mark = "[1000, 5]\n"
			c.want.Try = 1
			got, known := opcode.KeptOf(&job.Job{Received: received, Ops: c.ops}, c.byDefault, 0)
			require.True(t, known)
			require.Equal(t, c.want, got)
		})
	}
}

// A job has a process for each try, and what it says of the files of each is in the results of its tries. Their output has places after that
// of the ones before. A process that has died vouches for nothing.
func TestKeptOfTries(t *testing.T) {
	line := func(n int64) job.LogEntry {
		return job.LogEntry{Serial: n, Type: job.LogStdout, Payload: json.RawMessage(`"four"`)} // and a newline
	}
	ended := func(result string) job.LogEntry {
		return job.LogEntry{Type: job.LogTry, Payload: json.RawMessage(`{"try": 1, "most": 3, "end": "", "result": ` + result + `}`)}
	}
	second := command("null", job.Running, "null")
	asMessage, note := job.AsMessage(job.LogTry, ended(failedTwo).Payload)
	second.Log = []job.LogEntry{line(2), ended(failedTwo), line(4), {Type: job.LogCut, Payload: json.RawMessage("null")}, ended(died), line(6),
		{Type: asMessage, Payload: note}}
	j := &job.Job{Ops: []job.Op{command("true", job.Success, keptFive), second, command("null", job.Queued, "null")}}
	j.Ops[0].Log = []job.LogEntry{line(1)}
	begin := func(bytes int64, messages int64) job.Output {
		return job.Output{Stdout: job.StreamOutput{Lines: bytes / 5, Bytes: bytes}, Messages: messages}
	}
	vouched, open := opcode.KeptPart{Vouched: true, Stdout: 2}, opcode.KeptPart{}
	for tries, want := range []opcode.Kept{
		{Ended: true, Try: 1, Parts: []opcode.KeptPart{{Vouched: true, Stdout: 5, Stderr: 2}, vouched}},
		{Ended: true, Try: 2, Op: 1, Begin: begin(10, 1), Parts: []opcode.KeptPart{open}},
		{Ended: true, Try: 3, Op: 1, Begin: begin(15, 3), Parts: []opcode.KeptPart{vouched}},
		{Try: 4, Op: 1, Begin: begin(20, 4), Parts: []opcode.KeptPart{open, open}},
	} {
		want.Mark, want.Surely = "[0, 0]\n", true
		got, known := opcode.KeptOf(j, false, tries)
		require.True(t, known)
		require.Equal(t, want, got, "after %d tries", tries)
	}
	for _, tries := range []int{-1, 4} {
		_, known := opcode.KeptOf(j, false, tries)
		require.False(t, known)
	}
}

func TestNodesThatMayHaveKeptOutput(t *testing.T) {
	part := func(stdout int64) opcode.KeptPart {
		return opcode.KeptPart{Vouched: true, Stdout: stdout}
	}
	k := opcode.Kept{Parts: []opcode.KeptPart{part(5), part(0), part(2)}}
	require.True(t, k.MayHave(job.LogStdout, 6))
	require.False(t, k.MayHave(job.LogStdout, 7))
	require.False(t, k.MayHave(job.LogStderr, 0))
	k.Begin.Stdout.Bytes = 20
	require.True(t, k.MayHave(job.LogStdout, 26))
	require.False(t, k.MayHave(job.LogStdout, 27))
	k.Begin.Stdout.Bytes = 0
	k.Parts = append(k.Parts, opcode.KeptPart{})
	require.False(t, k.MayHave(job.LogStdout, 7), "the setting says no")
	k.Surely = true
	require.True(t, k.MayHave(job.LogStdout, 7))
}
