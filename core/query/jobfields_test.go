package query

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/rawjson"
	"lockstep/messages"
)

// A real Ganeti gave these answers for such a job (queue.md 2.5).
func TestTheFieldsOfAJob(t *testing.T) {
	j := job.New(7, []json.RawMessage{json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}`), json.RawMessage(`{"OP_ID": "OP_X"}`)},
		[]int{-10, 0}, job.Timestamp{Sec: 5, Usec: 1}, "")
	j.Start = job.Timestamp{Sec: 6}
	j.Ops[0].Status, j.Ops[0].Start, j.Ops[0].Result = job.Success, job.Timestamp{Sec: 6, Usec: 2}, json.RawMessage(`true`)
	j.Ops[0].Exec, j.Ops[0].End = job.Timestamp{Sec: 7}, job.Timestamp{Sec: 8}
	j.AppendLog(0, job.Timestamp{Sec: 7, Usec: 3}, "message", rawjson.Quote("hello"))
	j.Ops[1].Status = job.Waiting
	item := &JobItem{ID: 7, Job: j, Info: NewJobInfo(j, func(json.RawMessage) string { return "S" }, []byte("x"))}

	for name, want := range map[string]string{
		"id": `7`, "status": `"waiting"`, "priority": `0`, "archived": `false`, "summary": `["S", "S"]`,
		"ops":      `[{"OP_ID": "OP_TEST_DELAY", "duration": 1.0}, {"OP_ID": "OP_X"}]`,
		"opresult": `[true, null]`, "opstatus": `["success", "waiting"]`,
		"oplog":   `[[[1, [7, 3], "message", "hello"]], []]`,
		"opstart": `[[6, 2], null]`, "opexec": `[[7, 0], null]`, "opend": `[[8, 0], null]`, "oppriority": `[-10, 0]`,
		"received_ts": `[5, 1]`, "start_ts": `[6, 0]`, "end_ts": `null`,
	} {
		fields, err := JobFields([]string{name})
		require.NoError(t, err)
		data, err := json.Marshal(ClassicRow(fields, item))
		require.NoError(t, err)
		require.JSONEq(t, "["+want+"]", string(data), name)
	}
	require.Len(t, Jobs.fields, 16)
}

// A job that waits before its start is waiting, and so is its first opcode. Nothing else of it differs from a queued job.
func TestTheFieldsOfAJobThatWaitsBeforeItsStart(t *testing.T) {
	j := job.New(7, []json.RawMessage{json.RawMessage(`{}`), json.RawMessage(`{}`)}, []int{0, 0}, job.Timestamp{Sec: 5}, "")
	info := NewJobInfo(j, func(json.RawMessage) string { return "S" }, []byte("x"))
	values := func() string {
		row := map[string]any{}
		for _, f := range Jobs.fields {
			if f.Name != "status" && f.Name != "opstatus" {
				row[f.Name] = f.Value(&JobItem{ID: 7, Job: j, Info: info})
			}
		}
		data, err := json.Marshal(row)
		require.NoError(t, err)
		return string(data)
	}
	for wait, want := range map[messages.StartWait]struct {
		status, first string
		counted       job.Status
	}{
		messages.StartWait_NOT_WAITING: {"queued", "queued", job.Queued},
		messages.StartWait_FOR_JOBS:    {"waiting", "waiting", job.Waiting},
		messages.StartWait_FOR_LOCKS:   {"waiting", "waiting", job.Queued},
	} {
		before := values()
		info.Wait = wait
		fields, err := JobFields([]string{"status", "opstatus"})
		require.NoError(t, err)
		require.Equal(t, []any{want.status, []string{want.first, "queued"}}, ClassicRow(fields, &JobItem{ID: 7, Job: j, Info: info}))
		require.Equal(t, before, values())
		require.Equal(t, want.counted, CountedStatus(info))
		selection, err := NewSelection(answer.JobSelection{Statuses: []string{want.status}})
		require.NoError(t, err)
		require.True(t, selection.Matches(info))
	}
}

func TestFieldsThatAreNotThere(t *testing.T) {
	fields, err := JobFields([]string{"id", "a", "b"})
	var unknown *UnknownFields
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, "Unknown output fields selected: a, b", err.Error())
	require.Equal(t, []any{job.ID(7), nil, nil}, ClassicRow(fields, &JobItem{ID: 7}))

	fields, err = JobFields([]string{"id", "status", "ops"})
	require.NoError(t, err)
	q, err := Jobs.NewClassicQuery([]string{"id", "status", "ops"})
	require.NoError(t, err)
	require.Equal(t, LevelFile, q.Level())
	require.Equal(t, []any{job.ID(7), nil, nil}, ClassicRow(fields, &JobItem{ID: 7, Unknown: true}), "a job that was not found has its id only")
}

func TestAFinalJobIsKeptWithoutItsContent(t *testing.T) {
	j := job.New(7, []json.RawMessage{json.RawMessage(`{}`)}, []int{0}, job.Timestamp{Sec: 1}, "")
	summary := func(json.RawMessage) string { return "" }
	require.NotEmpty(t, NewJobInfo(j, summary, []byte("x")).Encoded)
	j.CancelUnstarted(nil, job.Timestamp{Sec: 2})
	require.Empty(t, NewJobInfo(j, summary, []byte("x")).Encoded)
}
