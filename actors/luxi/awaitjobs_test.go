package luxi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/core/deadlock"
	"lockstep/core/job"
	"lockstep/messages"
)

// jobMarker is the name of the lock file of job 5, of which the client is a process.
const jobMarker = "job_000005_1700000000_77_0123abcd"

// callInJob sends a request of a process of job 5.
func (c *core) callInJob(method, args string) {
	c.Helper()
	c.Tell(&conn.Received{Frame: []byte(`{"method": "` + method + `", "args": ` + args + `}`), Marker: jobMarker, From: c.From})
}

// identified answers whether the client is a process of job 5.
func (c *core) identified(as int64) {
	c.Helper()
	m := asked[*messages.IdentifyJob](c.client, c.jobs)
	require.Equal(c, int64(5), m.Id)
	require.Equal(c, jobMarker, m.Name)
	c.Tell(&messages.IdentifyJobResult{Request: m.Request, Id: as})
}

func cycle() *messages.WaitCycle {
	return &messages.WaitCycle{Steps: []*messages.WaitStep{{Job: 5, On: 6, By: int32(deadlock.Process)}, {Job: 6, On: 5, By: int32(deadlock.Lock), Lock: "lock/a"}}}
}

const refusal = "The wait would never end: job 5 waits for job 6; job 6 needs lock/a, which job 5 has"

const oneJob = `[{"ops": [{"OP_ID": "OP_TEST_DELAY", "duration": 1}]}]`

func TestAProcessOfAJobSubmits(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("SubmitJob", `[[{"OP_ID": "OP_TEST_DELAY", "duration": 1}]]`)
		c.identified(5)
		require.Equal(t, int64(5), asked[*messages.SubmitJobs](c.client, c.queue).Parent)
	})
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("LockstepSubmitJobs", `[`+oneJob+`, {"wait": true}]`)
		c.identified(5)
		m := asked[*messages.AwaitJobs](c.client, c.scheduler)
		require.Equal(t, int64(5), m.Parent)
		require.Len(t, m.Drafts, 1)
		c.Tell(&messages.AwaitJobsResult{Request: m.Request})
		require.Equal(t, int64(5), asked[*messages.SubmitJobs](c.client, c.queue).Parent)
	})
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("LockstepSubmitJobs", `[`+oneJob+`, {"wait": true}]`)
		c.identified(5)
		c.Tell(&messages.AwaitJobsResult{Request: asked[*messages.AwaitJobs](c.client, c.scheduler).Request, Cycle: cycle()})
		_, text := c.failed()
		require.Equal(t, refusal, text)
		c.queue.Quiet()
	})
}

// Who is no process of a job, or has only the name of a lock file, submits without a question to the scheduler.
func TestOthersSubmit(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("LockstepSubmitJobs", `[`+oneJob+`, {"wait": true}]`)
		c.identified(0)
		require.Zero(t, asked[*messages.SubmitJobs](c.client, c.queue).Parent)
		c.scheduler.Quiet()
	})
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepSubmitJobs", `[`+oneJob+`, {"wait": true}]`)
		require.Zero(t, asked[*messages.SubmitJobs](c.client, c.queue).Parent)
		c.jobs.Quiet()
		c.scheduler.Quiet()
	})
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepAwaitJobs", `[[6, 7]]`)
		require.Equal(t, "null", c.succeeded())
		c.jobs.Quiet()
		c.scheduler.Quiet()
	})
}

// A wait is repeated to a scheduler that has started, until another call ends it.
func TestAWaitOfAProcessOfAJob(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("LockstepAwaitJobs", `[[6]]`)
		c.identified(5)
		c.Tell(&messages.AwaitJobsResult{Request: asked[*messages.AwaitJobs](c.client, c.scheduler).Request, Cycle: cycle()})
		_, text := c.failed()
		require.Equal(t, refusal, text)
		c.coreRestarts()
		c.scheduler.Quiet()

		c.callInJob("LockstepAwaitJobs", `[[6, 7]]`)
		m := asked[*messages.AwaitJobs](c.client, c.scheduler)
		require.EqualExportedValues(t, &messages.AwaitJobs{Request: m.Request, Parent: 5, Ids: []int64{6, 7}}, m)
		c.Tell(&messages.AwaitJobsResult{Request: m.Request})
		require.Equal(t, "null", c.succeeded())
		c.coreRestarts()
		require.EqualExportedValues(t, &messages.AwaitJobs{Parent: 5, Ids: []int64{6, 7}, Observed: true}, asked[*messages.AwaitJobs](c.client, c.scheduler))

		c.callInJob("WaitForJobChange", `[6, ["status"], null, null, 10]`)
		c.scheduler.Quiet() // the client has said what it waits for
	})
}

// A client that does not say what it waits for waits for the job of its WaitForJobChange.
func TestAnObservedWait(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.callInJob("WaitForJobChange", `[6, ["status"], ["queued"], null, 10]`)
		c.identified(5)
		observed := &messages.AwaitJobs{Parent: 5, Ids: []int64{6}, Observed: true}
		require.EqualExportedValues(t, observed, asked[*messages.AwaitJobs](c.client, c.scheduler))
		m := asked[*messages.SubscribeJob](c.client, c.queue)
		c.coreRestarts()
		require.EqualExportedValues(t, observed, asked[*messages.AwaitJobs](c.client, c.scheduler))
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(6, job.Running))})
		require.Contains(t, c.succeeded(), "running")
		require.EqualExportedValues(t, &messages.AwaitJobs{Parent: 5, Observed: true}, asked[*messages.AwaitJobs](c.client, c.scheduler))
		c.coreRestarts()
		c.scheduler.Quiet()
	})
}

func TestWhyOfACycle(t *testing.T) {
	withCore(t, func(t *testing.T, c *core) {
		c.Call("LockstepWhy", `[5]`)
		c.Tell(&messages.ListJobsResult{Request: asked[*messages.ListJobs](c.client, c.queue).Request, Rows: []*messages.JobRow{rowOf(someJob(5, job.Running))}})
		m := asked[*messages.ExplainJobs](c.client, c.scheduler)
		c.Tell(&messages.ExplainJobsResult{Request: m.Request, Jobs: []*messages.JobExplanation{{Id: 5, Cycle: cycle()}}})
		require.Contains(t, c.succeeded(), `"reasons":[{"kind":"cycle","steps":[{"job":5,"for":6,"by":"process"},{"job":6,"for":5,"by":"lock","lock":"lock/a"}]},{"kind":"running"`)
	})
}
