package jobproc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/rawjson"
	"lockstep/core/retry"
)

var exit75 = Outcome{Failed: true, Result: json.RawMessage(`["OpExecError", ["command exited with status 75", {"exit_status": 75}]]`)}

// retried is a job whose opcodes are all tried again, at most twice.
func retried(ops int) *job.Job {
	inputs := make([]json.RawMessage, ops)
	for i := range inputs {
		inputs[i] = json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "retry": 2}`)
	}
	return job.New(7, inputs, make([]int, ops), at(1), "")
}

func tries(ops, try int) []LaunchSpec {
	specs := make([]LaunchSpec, ops)
	for i := range specs {
		specs[i] = LaunchSpec{Retry: &retry.Policy{Times: 2}}
	}
	specs[ops-1].Try = try
	return specs
}

// executes is a machine whose last opcode executes.
func executes(t *testing.T, j *job.Job, try int) *Machine {
	t.Helper()
	m, err := New(j, tries(len(j.Ops), try))
	require.NoError(t, err)
	m.Start(at(10))
	m.Permitted(at(11))
	return m
}

func TestAFailedTryEndsTheProcessAndNotTheJob(t *testing.T) {
	m := executes(t, retried(1), 1)
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 0}, m.Done(exit75, at(12)), "the end is durable before the process exits")
	require.True(t, m.Job().TryEnded())
	require.Equal(t, at(12), m.Job().Ops[0].End)
	require.JSONEq(t, string(exit75.Result), string(m.Job().Ops[0].Result))
	require.True(t, m.Job().End.IsZero())
}

func TestTheLastTryEndsTheJob(t *testing.T) {
	m := executes(t, retried(1), 3)
	m.Done(exit75, at(12))
	require.Equal(t, job.Error, m.Job().Status())
}

func TestASuccessIsNotTriedAgain(t *testing.T) {
	m := executes(t, retried(1), 1)
	m.Done(Outcome{}, at(12))
	require.Equal(t, job.Success, m.Job().Status())
}

// Another failure than that of the command, such as that of its locks, ends the job.
func TestAFailureBeforeTheCommandIsNotTriedAgain(t *testing.T) {
	m, err := New(retried(1), tries(1, 1))
	require.NoError(t, err)
	m.Start(at(10))
	m.FailBeforeStart(job.ErrorResult("OpExecError", "no program"), at(11))
	require.Equal(t, job.Error, m.Job().Status())
}

// A client who ends the command has ended the job: no try follows.
func TestAKilledTryIsTheLastOne(t *testing.T) {
	m := executes(t, retried(1), 1)
	m.Kill(at(12))
	m.Done(exit75, at(13))
	require.Equal(t, job.Error, m.Job().Status())
}

// A cancel during a try comes too late for the command, and is refused: another try follows.
func TestACancelDuringATryIsTooLate(t *testing.T) {
	m := executes(t, retried(1), 1)
	m.Cancel(at(12))
	m.Done(exit75, at(13))
	require.True(t, m.Job().TryEnded())
}

// The process of a later try begins with the opcode that is tried again. What has succeeded before stays, and places in the output go on.
func TestTheProcessOfALaterTry(t *testing.T) {
	m, err := New(retried(2), tries(2, 1))
	require.NoError(t, err)
	m.Start(at(10))
	m.Permitted(at(11))
	m.Log("stdout", rawjson.Quote("first"), at(11))
	m.Done(Outcome{Result: json.RawMessage("true")}, at(12))
	m.Permitted(at(13))
	m.Log("stdout", rawjson.Quote("second"), at(13))
	m.Done(exit75, at(14))
	j, err := job.Decode(job.Encode(m.Job()))
	require.NoError(t, err)
	_, err = New(j, tries(2, 2))
	require.ErrorContains(t, err, "has begun before", "the daemon has not noted the try")

	j.Ops[1].AwaitTry()
	next, err := New(j, tries(2, 2))
	require.NoError(t, err)
	require.Equal(t, m.log.total, next.log.total, "the next line of the output has its place after those of the tries before")
	require.Equal(t, Step{Write: Visible, Action: Begin, Op: 1}, next.Start(at(20)))
	require.Equal(t, at(10), next.Job().Start, "the job has started with the first try")
	require.Equal(t, at(20), next.Job().Ops[1].Start)
	next.Permitted(at(21))
	next.Log("stdout", rawjson.Quote("third"), at(21))
	require.EqualValues(t, 3, next.Job().LastSerial())
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 1}, next.Done(Outcome{}, at(22)))
	require.Equal(t, []job.Status{job.Success, job.Success}, []job.Status{next.Job().Ops[0].Status, next.Job().Ops[1].Status})
	require.JSONEq(t, `true`, string(next.Job().Ops[0].Result))
}

// Only what awaits a try runs a second time.
func TestWhichJobsAProcessTakesOver(t *testing.T) {
	for name, change := range map[string]func(*job.Job){
		"the first opcode succeeded and the second is queued": func(j *job.Job) { j.Ops[0].Status = job.Success },
		"a later opcode waits":                                func(j *job.Job) { j.Ops[1].Status = job.Waiting },
		"the opcode has failed":                               func(j *job.Job) { j.Ops[0].Status = job.Error },
		"the try has begun":                                   func(j *job.Job) { j.Ops[0].Status, j.Ops[0].Start = job.Waiting, at(2) },
	} {
		j := retried(2)
		change(j)
		_, err := New(j, tries(2, 2))
		require.ErrorContains(t, err, "has begun before", name)
	}
}
