package jobs

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/drafts"
	"lockstep/core/opcode"
	"lockstep/messages"
)

func TestDraftErrorsNameTheirPlace(t *testing.T) {
	good, bad := json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":1}`), json.RawMessage(`{"OP_ID":"OP_NO_SUCH"}`)
	client := &call.Call{Config: &call.Config{Catalogue: opcode.Builtin()}}
	for _, c := range []struct {
		jobs  [][]json.RawMessage
		place string // "": none
	}{
		{[][]json.RawMessage{{bad}}, ""},
		{[][]json.RawMessage{{good, bad}}, ", in opcode 2 of 2"},
		{[][]json.RawMessage{{good}, {bad}}, ", in job 2 of 2"},
		{[][]json.RawMessage{{good}, {good, bad}}, ", in opcode 2 of 2, in job 2 of 2"},
	} {
		made, mistakes, refusal := draftJobs(client, c.jobs, 1)
		require.NoError(t, refusal)
		require.Len(t, mistakes, 1)
		require.Equal(t, "Unknown opcode OP_NO_SUCH"+c.place, drafts.Placed(c.jobs, mistakes[0]))
		require.Len(t, made, len(c.jobs))
	}
	made, mistakes, refusal := draftJobs(client, [][]json.RawMessage{{good}, {good, good}}, 1)
	require.NoError(t, refusal)
	require.Empty(t, mistakes)
	require.Len(t, made[1].Ops, 2)
}

// All mistakes have their places; each parameter of an opcode is checked.
func TestEveryMistakeOfASubmissionIsFound(t *testing.T) {
	jobs := [][]json.RawMessage{
		{json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":"long","on_nodes":7}`)},
		{json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":1}`), json.RawMessage(`{"OP_ID":"OP_NO_SUCH"}`)},
		{json.RawMessage(`{"OP_ID":"OP_RUN_COMMAND","argv":["true"],"locks":[["a","shared"],["a","exclusive"]]}`)},
	}
	_, mistakes, _ := draftJobs(&call.Call{Config: &call.Config{Catalogue: opcode.Builtin()}}, jobs, 100)
	places := make([]answer.Mistake, len(mistakes))
	for i, m := range mistakes {
		require.NotEmpty(t, m.Text)
		m.Text = ""
		places[i] = m
	}
	require.Equal(t, []answer.Mistake{
		{Job: 1, Opcode: 1, Parameter: "duration"}, {Job: 1, Opcode: 1, Parameter: "on_nodes"},
		{Job: 2, Opcode: 2}, {Job: 3, Opcode: 1, Parameter: "locks"},
	}, places)
}

func TestTheSchedulersReasonComesBeforeAWaitForLocks(t *testing.T) {
	slots := []*messages.Reason{{Kind: &messages.Reason_Slots{Slots: &messages.SlotsReason{Slots: 2, Running: 2}}}}
	wait := func(id int64, lock string) answer.LockWait {
		return answer.LockWait{Owner: answer.LockOwner{Who: answer.Principal{Job: id}},
			Blockers: []answer.LockOwner{{Who: answer.Principal{Job: 9}}}, Locks: [][]string{{lock}}}
	}
	require.Equal(t, []answer.PendingReason{{ID: 1, Text: "no free slot (2 of 2)"}, {ID: 2, Text: "waits for node/n2, which job 9 has"}, {ID: 3}},
		pendingReasons([]*messages.JobExplanation{{Id: 1, Reasons: slots}, {Id: 2}, {Id: 3}}, []answer.LockWait{wait(1, "node/n1"), wait(2, "node/n2")}, time.Time{}))
}
