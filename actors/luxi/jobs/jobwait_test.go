package jobs

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/query"
	"lockstep/messages"
)

func runningJob(id int64) *job.Job {
	j := job.New(job.ID(id), []json.RawMessage{json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":1.0}`)}, []int{0}, job.Timestamp{Sec: 1}, "")
	j.Ops[0].Status = job.Running
	return j
}

func infoOf(j *job.Job) *messages.JobInfo { return query.NewJobInfo(j, opcode.Summary, nil) }

func newWait(previous any, serial int64, names ...string) *jobWait {
	fields, _ := query.JobFields(names)
	return &jobWait{id: 1, fields: fields, previous: previous, serial: serial}
}

// see hands a state of the job to the wait and returns the JSON of the answer if the wait ends.
func see(t *testing.T, w *jobWait, j *job.Job) string {
	t.Helper()
	ends, err := w.see(infoOf(j), job.Encode(j))
	require.NoError(t, err)
	if !ends {
		return ""
	}
	data, err := json.Marshal(w.current)
	require.NoError(t, err)
	return string(data)
}

func TestAWaitEndsWithTheFirstDifference(t *testing.T) {
	w, j := newWait([]any{"running"}, 0, "status"), runningJob(1)
	require.Empty(t, see(t, w, j))
	require.NotNil(t, w.current, "the state is the answer when the time is up")
	j.AppendLog(0, job.Timestamp{Sec: 3, Usec: 4}, "message", json.RawMessage(`"hello"`))
	require.JSONEq(t, `[["running"],[[1,[3,4],"message","hello"]]]`, see(t, w, j))
	w.serial = 1
	require.Empty(t, see(t, w, j))
	j.Ops[0].Status = job.Success
	require.JSONEq(t, `[["success"],[]]`, see(t, w, j))
}

func TestAFinalJobEndsAWaitWithoutADifference(t *testing.T) {
	j := runningJob(1)
	j.Ops[0].Status = job.Error
	require.JSONEq(t, `[["error"],[]]`, see(t, newWait([]any{"error"}, 0, "status"), j))
}

func TestAnExpiredWaitEndsWithAnyState(t *testing.T) {
	w := newWait([]any{"running"}, 0, "status")
	w.expired = true
	require.JSONEq(t, `[["running"],[]]`, see(t, w, runningJob(1)))
}

func TestAWaitSeesNoJob(t *testing.T) {
	w := newWait(nil, 0, "status")
	_, err := w.see(&messages.JobInfo{}, []byte("{"))
	require.ErrorIs(t, err, errJobUnreadable)
	require.Nil(t, w.current)
}

func TestSameJSON(t *testing.T) {
	for _, c := range []struct {
		values   []any
		previous string
		same     bool
	}{
		{[]any{1, "x"}, `[1.0, "x"]`, true},
		{[]any{map[string]int{"a": 1, "b": 2}}, `[{"b": 2, "a": 1}]`, true},
		{[]any{nil}, `[null]`, true},
		{[]any{}, `null`, false},
		{[]any{1}, `[1, 2]`, false},
		{[]any{func() {}}, `[1]`, false},
	} {
		var previous any
		require.NoError(t, json.Unmarshal([]byte(c.previous), &previous))
		require.Equal(t, c.same, sameJSON(c.values, previous), c.previous)
	}
}
