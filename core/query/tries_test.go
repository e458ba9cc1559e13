package query

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/record"
	"lockstep/messages"
)

func stepsWithRetry(policies ...string) *job.Job {
	var inputs []json.RawMessage
	for _, p := range policies {
		inputs = append(inputs, json.RawMessage(`{"OP_ID": "OP_RUN_COMMAND", "retry": `+p+`}`))
	}
	return job.New(7, inputs, make([]int, len(inputs)), job.Timestamp{Sec: 5}, "")
}

func listedWith(t *testing.T, j *job.Job, r record.Record) (listed answer.ListedJob) {
	t.Helper()
	info := NewJobInfo(j, func(json.RawMessage) string { return "S" }, nil)
	AddRecord(info, j, r)
	require.NoError(t, json.Unmarshal(AppendListed(nil, info, false), &listed))
	return listed
}

// A listed job has the try of the opcode that runs or comes next, and all ended tries.
func TestTheTriesOfAListedJob(t *testing.T) {
	j := stepsWithRetry(`null`, `5`)
	listed := listedWith(t, j, record.Record{})
	require.Nil(t, listed.Try, "the opcode that comes next is not tried again")

	j.Ops[0].Status, j.Ops[1].Status = job.Success, job.Waiting
	listed = listedWith(t, j, record.Record{})
	require.Equal(t, &answer.Try{Number: 1, Most: 6}, listed.Try)
	require.Nil(t, listed.Due)
	require.Nil(t, listed.Tries)

	r, err := record.Decode([]byte(`{"due": 9000001, "tries": [{"start": 3, "op": 1, "result": ["OpExecError", ["x", {"exit_status": 75, "usage": {"cpu_seconds": 0.5}}]],
		"began": 6000000, "ended": 7000000, "log_to": 4}]}`))
	require.NoError(t, err)
	listed = listedWith(t, j, r)
	require.Equal(t, &answer.Try{Number: 2, Most: 6, Last: "exit 75"}, listed.Try)
	require.EqualValues(t, 9_000_001, listed.Due.UnixMicro())
	require.Len(t, listed.Tries, 1)
	require.Equal(t, 1, listed.Tries[0].Opcode)
	require.Equal(t, "exit 75", listed.Tries[0].Result)
	require.EqualValues(t, 4, listed.Tries[0].LogTo)
	require.Equal(t, &job.Usage{CPUSeconds: 0.5}, listed.Tries[0].Usage)
	require.EqualValues(t, 6_000_000, listed.Tries[0].Start.UnixMicro())

	j.Ops[1].Status, j.Ops[1].Start = job.Running, job.Timestamp{Sec: 9}
	listed = listedWith(t, j, r)
	require.Nil(t, listed.Due, "the try runs: the time in the record is that of its start")
	require.Equal(t, 2, listed.Try.Number)
}

func TestAJobWithoutAPolicyHasNoTry(t *testing.T) {
	info := NewJobInfo(stepsWithRetry(`null`), func(json.RawMessage) string { return "S" }, nil)
	AddRecord(info, stepsWithRetry(`null`), record.Record{})
	require.NotContains(t, string(AppendListed(nil, info, false)), `"try"`)
	require.Nil(t, TryOf((*messages.Try)(nil)))
}
