package jobs_test

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/paths"
	"lockstep/messages"
)

func (b *bench) order(m any) {
	b.client.Ask(b.jobs, m)
	b.Settle()
}

// expectOrderResult expects the answer to an order.
func (b *bench) expectOrderResult(request uint64) (done bool, text string) {
	b.Helper()
	a := kittest.Expect[*messages.OrderJobResult](b.client)
	require.Equal(b, request, a.Request)
	b.client.Quiet()
	return a.Done, a.Text
}

func (b *bench) report(j *job.Job) {
	b.send(&messages.ProcessReported{Id: int64(j.ID), Livelock: j.Livelock, Encoded: job.Encode(j)})
}

func canceled(id int64) *job.Job {
	j := jobtest.Running(id)
	j.Ops[0].Status, j.End = job.Canceled, job.Timestamp{Sec: 9}
	return j
}

// The last report may be older than what the process does, so the process decides.
func TestACancelReachesAJobThatIsBelievedToRun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.report(jobtest.Running(1))
		b.order(&messages.OrderJob{Request: 5, Id: 1})
		require.Equal(t, []string{"tell 1 0"}, b.takeCalls())
		b.client.Quiet()
		b.sendGone(1, "exit status 0")
		b.answerReadJob(canceled(1))
		done, text := b.expectOrderResult(5)
		require.True(t, done)
		require.Equal(t, "Job successfully cancelled", text)
	})
}

func TestACancelOfAJobThatExecutes(t *testing.T) {
	for name, hears := range map[string]func(b *bench){
		"its process says so":      func(b *bench) { b.report(jobtest.Running(1)) },
		"its process says nothing": func(b *bench) { b.Advance(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.run(1)
				b.report(jobtest.Running(1))
				b.order(&messages.OrderJob{Request: 5, Id: 1})
				b.client.Quiet()
				hears(b)
				done, text := b.expectOrderResult(5)
				require.False(t, done)
				require.Equal(t, "Job no longer waiting, can't cancel", text)
			})
		})
	}
}

// A priority is for opcodes that have not begun. The last one has, so nothing changes, and the client is told so.
func TestAPriorityForTheLastOpcode(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.takeCalls()
		b.report(jobtest.Running(1))
		b.order(&messages.OrderJob{Request: 6, Id: 1, Kind: messages.OrderJob_SET_PRIORITY, Priority: 4})
		done, text := b.expectOrderResult(6)
		require.False(t, done)
		require.Equal(t, "Job 1 executes its last opcode, which keeps its priority: nothing has changed", text)
		require.Empty(t, b.takeCalls())
	})
}

// wait blocks the actor that logs text until gate is closed.
type wait struct {
	text string
	gate chan struct{}
}

func (*wait) Levels() []logrus.Level { return logrus.AllLevels }

func (w *wait) Fire(e *logrus.Entry) error {
	if e.Message == w.text {
		<-w.gate
	}
	return nil
}

// Orders that reach the job's actor after the end of the job, or not at all, go to the
// queue.
func TestAWishThatCrossesWithTheEndGoesToTheQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.adopt(jobtest.Succeeded(1))
		b.answerReadJob(jobtest.Succeeded(1))
		held := &wait{"job file of a running job is missing or invalid; writing its end from memory", make(chan struct{})}
		b.Env.Log().AddHook(held)
		b.sendGone(1, "exit status 0")
		b.answerRead(1, &messages.ReadFileResult{Missing: true})
		b.answerReadAt(paths.ArchivePath(1), &messages.ReadFileResult{Missing: true})
		b.order(&messages.OrderJob{Request: 5, Id: 1, Kind: messages.OrderJob_KILL})
		b.order(&messages.OrderJob{Request: 6, Id: 1, Kind: messages.OrderJob_SET_PRIORITY, Priority: 4})
		b.queue.Quiet()
		close(held.gate)
		b.expectEnded(1)
		cancel, client := kittest.ExpectFrom[*messages.OrderJob](b.queue)
		require.EqualExportedValues(t, &messages.OrderJob{Request: 5, Id: 1, Kind: messages.OrderJob_KILL}, cancel)
		require.True(t, client.Equal(b.client.PID))
		priority, client := kittest.ExpectFrom[*messages.OrderJob](b.queue)
		require.EqualExportedValues(t, &messages.OrderJob{Request: 6, Id: 1, Kind: messages.OrderJob_SET_PRIORITY, Priority: 4}, priority)
		require.True(t, client.Equal(b.client.PID))
		b.client.Quiet()
	})
}

// The start has failed, but the job actor does not know yet that no process exists. The
// order is answered, and the job returns to the queue with the new priority.
func TestAPriorityBeforeAJobIsGivenBackGoesToTheQueue(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendHandshakeFailed(1, "no such file")
		b.order(&messages.OrderJob{Request: 6, Id: 1, Kind: messages.OrderJob_SET_PRIORITY, Priority: 4})
		b.expectOrderResult(6)
		b.queue.Quiet()
		b.sendFromProcess(1, func(n uint64) any { return &messages.ProcessGone{Attempt: n, Text: "no such file", NeverSpawned: true} })
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReturned](b.queue).Id)
		require.Equal(t, int32(4), kittest.Expect[*messages.OrderJob](b.queue).Priority)
		b.client.Quiet()
	})
}

// A client gets its answer at once when the job's actor crashes.
func TestAWishOfWhichAJobActorHasCrashed(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.order(&messages.OrderJob{Request: 5, Id: 1})
		b.Crash(b.port.last[1].to)
		done, text := b.expectOrderResult(5)
		require.False(t, done)
		require.Equal(t, "Job 1 is just being adopted; try again", text)
	})
}

// The port has ended Ganeti's process of a job that executed no opcode: the job is canceled, by the client or by the rule. If an
// opcode had begun nevertheless, its end is that of a dead process.
func TestACancelThatEndsTheProcess(t *testing.T) {
	waits := func() *job.Job {
		j := jobtest.Running(1, jobtest.Delay(), jobtest.Delay())
		j.Ops[0].Status, j.Ops[1].Status = job.Success, job.Waiting
		return j
	}
	rule := &messages.Verdict{Id: 1, Rule: "r", Reason: "no"}
	for name, c := range map[string]struct {
		rejection *messages.Verdict
		file      *job.Job
		result    string
		status    job.Status
	}{
		"a client":       {nil, waits(), `"Job canceled by request"`, job.Canceled},
		"a rule":         {rule, waits(), `"rejected by filter rule r: no"`, job.Canceled},
		"it had begun":   {nil, jobtest.Running(1), `"detected death of job 1: signal: killed"`, job.Error},
		"it had ended":   {nil, canceled(1), ``, job.Canceled},
		"it was between": {rule, jobtest.Queued(1, jobtest.Delay()), `"rejected by filter rule r: no"`, job.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.run(1)
				b.order(&messages.OrderJob{Request: 5, Id: 1, Rejection: c.rejection})
				b.sendFromProcess(1, func(n uint64) any {
					return &messages.ProcessGone{Attempt: n, Text: "signal: killed", Canceled: true}
				})
				b.answerReadJob(c.file)
				j := b.answerWrite(1, nil)
				require.Equal(t, c.status, j.Status())
				require.Equal(t, c.result, string(j.Ops[len(j.Ops)-1].Result))
				done, _ := b.expectOrderResult(5)
				require.Equal(t, c.status == job.Canceled, done)
			})
		})
	}
}
