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
			require.Equal(t, c.want, opcode.KeptOf(&job.Job{Received: received, Ops: c.ops}, c.byDefault))
		})
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
	k.Parts = append(k.Parts, opcode.KeptPart{})
	require.False(t, k.MayHave(job.LogStdout, 7), "the setting says no")
	k.Surely = true
	require.True(t, k.MayHave(job.LogStdout, 7))
}
