package record_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/record"
)

func TestNames(t *testing.T) {
	for _, name := range []string{"a", "nightly", "backup-2.1_x", "1a", "2026-11-22", strings.Repeat("x", 100), ".x"} {
		require.NoError(t, record.CheckName(name), name)
		r, err := record.Decode(record.Record{}.WithName(name).Encode())
		require.NoError(t, err)
		require.Equal(t, name, r.Name())
	}
	for _, name := range []string{"", "12", "a b", "a/b", "-x", "ä", "a\n", strings.Repeat("x", 101), "x*"} {
		require.Error(t, record.CheckName(name), name)
	}
	require.Panics(t, func() { record.Record{}.WithName("12") })
}

func TestUsers(t *testing.T) {
	for by, want := range map[string]string{
		"uid=1000(alice), pid=4711": "alice", "uid=1000, pid=4711": "1000", "uid=0(root), pid=1, node=n2": "root",
		"user=deploy, from=10.0.0.5": "deploy", "uid=1000()": "1000", "somebody": "somebody",
	} {
		require.Equal(t, want, record.User(by))
	}
}

// failed is a job whose opcode has failed with this result.
func failed(result string) *job.Job {
	j := jobtest.Running(1)
	j.Ops[0].Exec = job.Timestamp{Sec: 1}
	j.FailUnfinished([]byte(result), job.Timestamp{Sec: 2})
	return j
}

func canceled(input string) *job.Job {
	j := jobtest.Queued(1)
	j.Ops[0].Input = []byte(input)
	j.CancelUnstarted(nil, job.Timestamp{Sec: 2})
	return j
}

func canceledWith(result string) *job.Job {
	j := jobtest.Queued(1)
	j.CancelUnstarted([]byte(`"`+result+`"`), job.Timestamp{Sec: 2})
	return j
}

func TestResults(t *testing.T) {
	byRoot := record.Record{}.WithCanceledBy("uid=0(root), pid=7")
	unrun := jobtest.Queued(1)
	unrun.FailUnfinished(job.ErrorResult("OpExecError", "Dependency error: x"), job.Timestamp{Sec: 2})
	for name, c := range map[string]struct {
		job    *job.Job
		record record.Record
		want   string
	}{
		"success":          {job: jobtest.Succeeded(1)},
		"running":          {job: jobtest.Running(1), record: byRoot},
		"exit status":      {job: failed(`["OpExecError", ["command failed", {"exit_status": 3}]]`), want: "exit 3"},
		"failed by itself": {job: failed(`["OpExecError", ["command failed", {"exit_status": 3}]]`), record: byRoot, want: "exit 3"},
		"time-out":         {job: failed(`["OpExecError", ["x", {"timeout": 60}]]`), want: "timed out"},
		"signal":           {job: failed(`["OpExecError", ["x", {"signal": "SIGKILL"}]]`), want: "signal SIGKILL"},
		"signal by number": {job: failed(`["OpExecError", ["x", {"signal": 40}]]`), want: "signal 40"},
		"killed":           {job: failed(`["OpExecError", ["Ended on request", {"signal": "SIGTERM"}]]`), record: byRoot, want: "killed by root"},
		"out of memory": {job: failed(`["OpExecError", ["out of memory (limit 2G)", {"signal": "SIGKILL"}]]`), record: byRoot,
			want: "out of memory (limit 2G)"},
		"killed, by whom?":   {job: failed(`["OpExecError", ["Ended on request"]]`), want: "killed"},
		"another error":      {job: failed(`["OpPrereqError", ["no such node\nat all", "wrong_input"]]`), want: "no such node"},
		"a long error":       {job: failed(`"` + strings.Repeat("ä", 100) + `"`), want: strings.Repeat("ä", 79) + "…"},
		"only a class":       {job: failed(`["LockError", []]`), want: "LockError"},
		"no error at all":    {job: failed(`[1]`)},
		"canceled":           {job: canceled(`{"OP_ID": "X"}`)},
		"canceled by":        {job: canceled(`{"OP_ID": "X"}`), record: byRoot, want: "canceled by root"},
		"canceled waiting":   {job: canceledWith("Job canceled by request"), record: byRoot, want: "canceled by root"},
		"by a dependency":    {job: canceledWith("Job canceled: job 7 was canceled"), record: byRoot, want: "not run: job 7 was canceled"},
		"rejected by a rule": {job: canceledWith("rejected by filter rule u: no"), want: "rejected by filter rule u: no"},
		"rejected":           {job: canceled(`{"OP_ID": "X", "reason": [["gnt:daemon:luxid:filter", "rejected by filter rule u", 1]]}`), want: "rejected by a filter rule"},
		"not run: failed":    {job: unrun, record: record.Record{}.WithCause(15, job.Error), want: "not run: job 15 failed"},
		"not run: canceled":  {job: unrun, record: record.Record{}.WithCause(15, job.Canceled), want: "not run: job 15 was canceled"},
		"not run: succeeded": {job: unrun, record: record.Record{}.WithCause(15, job.Success), want: "not run: job 15 ended with success"},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, c.record.Result(c.job)) })
	}
}

// A job of three opcodes, of which the first has succeeded, ends for a dependency of the second.
func TestResultsOfJobsThatEndBetweenOpcodes(t *testing.T) {
	begun := func() *job.Job {
		j := jobtest.Queued(1)
		j.Ops = append(j.Ops, j.Ops[0], j.Ops[0])
		j.Ops[0].Status, j.Ops[0].Exec, j.Ops[0].End = job.Success, job.Timestamp{Sec: 1}, job.Timestamp{Sec: 2}
		return j
	}
	failed, canceled, byClient := begun(), begun(), begun()
	failed.FailUnfinished(job.ErrorResult("OpExecError", "Dependency error: job 7 ended with status error, success was required"), job.Timestamp{Sec: 3})
	canceled.CancelUnstarted([]byte(`"Job canceled: job 7 was canceled"`), job.Timestamp{Sec: 3})
	byClient.CancelUnstarted([]byte(`"Job canceled by request"`), job.Timestamp{Sec: 3})
	byRoot := record.Record{}.WithCanceledBy("uid=0(root), pid=7")
	require.Equal(t, "opcodes 2 to 3 not run: job 7 ended with status error, success was required", record.Record{}.Result(failed))
	require.Equal(t, "opcodes 2 to 3 not run: job 7 was canceled", byRoot.Result(canceled))
	require.Equal(t, "canceled by root", byRoot.Result(byClient))
	failed.Ops = failed.Ops[:2]
	require.Equal(t, "opcode 2 not run: job 7 ended with status error, success was required", record.Record{}.Result(failed))
}
