package luxi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

const delay = `{"OP_ID": "OP_TEST_DELAY", "duration": 1, "reason": []}`

func jsonOf(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

// submitted is the queue's answer to a submission.
func (c *client) submitted(m *messages.SubmitJobs, ids ...int64) {
	c.Tell(&messages.SubmitJobsResult{Request: m.Request, Ids: ids})
}

func TestSubmitJob(t *testing.T) {
	for method, drained := range map[string]bool{"SubmitJob": false, "SubmitJobToDrainedQueue": true} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call(method, `[[`+delay+`, `+delay+`]]`)
			m := asked[*messages.SubmitJobs](c, b.queue)
			require.Equal(t, drained, m.IgnoreDrain)
			require.Len(t, m.Jobs, 1)
			require.Len(t, m.Jobs[0].Ops, 2)
			c.Silent()
			c.submitted(m, 4944)
			require.JSONEq(t, `{"success":true,"result":4944}`, c.Answer())
		})
	}
}

func TestSubmitManyJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitManyJobs", `[[[`+delay+`], [`+delay+`, `+delay+`]]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		require.Len(t, m.Jobs, 2)
		require.Len(t, m.Jobs[1].Ops, 2)
		c.submitted(m, 7, 8)
		require.JSONEq(t, `{"success":true,"result":[[true,7],[true,8]]}`, c.Answer())
	})
}

func TestSubmitManyJobsOfNone(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitManyJobs", `[[]]`)
		c.submitted(asked[*messages.SubmitJobs](c, b.queue))
		require.JSONEq(t, `{"success":true,"result":[]}`, c.Answer())
	})
}

func TestASubmissionThatIsRefused(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		c.Tell(&messages.SubmitJobsResult{Request: m.Request, Failure: &messages.Failure{
			Class: "OpPrereqError", Text: "no", Code: "wrong_input"}})
		require.JSONEq(t, `{"success":false,"result":["OpPrereqError",["no","wrong_input"]]}`, c.Answer())
		require.False(t, c.Closed())
	})
}

func TestPriorityTravelsWithTheOpcode(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[{"OP_ID": "OP_TEST_DELAY", "duration": 1, "priority": -10}]]`)
		require.Equal(t, int32(-10), asked[*messages.SubmitJobs](c, b.queue).Jobs[0].Ops[0].Priority)
	})
}

// A secret reaches the queue, apart from the opcode, and no log or answer.
func TestSecrets(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "secret_env": {"TOKEN": "hunter2"}}]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		op := m.Jobs[0].Ops[0]
		require.NotContains(t, string(op.Input), "hunter2")
		require.Contains(t, string(op.Secrets), "hunter2")
		c.submitted(m, 1)
		require.NotContains(t, c.Answer(), "hunter2")
		for _, entry := range b.Logs.AllEntries() {
			text, err := entry.String()
			require.NoError(t, err)
			require.NotContains(t, text, "hunter2")
		}
	})
}

// The answer to an invalid submission does not contain its secrets.
func TestSecretsOfARefusedSubmission(t *testing.T) {
	for _, op := range []string{
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "secret_env": {"TOKEN": "hunter2"}, "nosuch": 1}`,
		`{"OP_ID": "OP_RUN_COMMAND", "argv": [], "secret_env": {"TOKEN": "hunter2"}}`,
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "secret_env": {"TOKEN": ["hunter2"]}}`,
		`{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "secret_env": "hunter2"}`,
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("SubmitJob", `[[`+op+`]]`)
			require.NotContains(t, c.Answer(), "hunter2")
			b.queue.Quiet()
		})
	}
}

func TestTheQueueRestartsDuringASubmission(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		question := asked[*messages.CheckSubmission](c, b.queue)
		b.queue.Quiet() // it is not sent again
		c.Silent()
		c.Tell(&messages.CheckSubmissionResult{Request: question.Request})
		require.JSONEq(t, `{"success":false,"result":["GenericError",["The queue has restarted while it had your SubmitJob in hand: look at the list of jobs before you send it again"]]}`, c.Answer())
		require.False(t, c.Closed())

		c.submitted(m, 1) // late: it is not for the next request
		c.Call("SubmitJob", `[[`+delay+`]]`)
		next := asked[*messages.SubmitJobs](c, b.queue)
		c.submitted(m, 1)
		c.Tell(&messages.CheckSubmissionResult{Request: m.Request})
		c.Silent()
		c.submitted(next, 2)
		require.JSONEq(t, `{"success":true,"result":2}`, c.Answer())
	})
}

// A queue that is starting keeps earlier messages in its mailbox.
func TestTheQueueStartsWithASubmissionInItsMailbox(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 1})
		asked[*messages.CheckSubmission](c, b.queue) // has the submission: does not answer
		c.Silent()
		c.submitted(m, 5)
		require.JSONEq(t, `{"success":true,"result":5}`, c.Answer())
	})
}

func TestAQueueThatDoesNotAnswer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := kittest.Expect[*messages.SubmitJobs](b.queue)
		b.Advance(59 * time.Second)
		c.Silent()
		b.Advance(time.Second)
		require.Contains(t, c.Answer(), `["GenericError",["The daemon is too busy to answer SubmitJob; for a submission, look at the list of jobs`)
		c.submitted(m, 1)
		c.Silent()
	})
}
