package jobs_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/handshake"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

func (b *bench) sendCallOff(request uint64, ids ...int64) {
	b.client.Ask(b.jobs, &messages.CallOff{Request: request, Ids: ids})
	b.Settle()
}

// expectCalledOff expects the answer to a CallOff.
func (b *bench) expectCalledOff(request uint64, mayBegin ...int64) {
	b.Helper()
	a := kittest.Expect[*messages.CallOffResult](b.client)
	require.Equal(b, request, a.Request)
	require.Equal(b, mayBegin, a.MayBegin)
	b.client.Quiet()
}

// answerBeginWait answers the question of a job's actor whether its process waits for a permission.
func (b *bench) answerBeginWait(waits bool) {
	b.Helper()
	m, from := kittest.ExpectFrom[*messages.GetBeginWait](b.scheduler)
	b.scheduler.Ask(from, &messages.GetBeginWaitResult{Request: m.Request, Waits: waits})
	b.Settle()
}

// expectGivenBack expects the return of a job, beside whatever else happens.
func (b *bench) expectGivenBack(id int64) {
	b.Helper()
	require.Equal(b, id, kittest.Expect[*messages.JobReturned](b.queue).Id)
}

func (b *bench) expectNoStartError() {
	b.Helper()
	b.client.Ask(b.jobs, &messages.GetStartError{Request: 4})
	require.Empty(b, kittest.Expect[*messages.GetStartErrorResult](b.client).Text)
}

// A process that has not named itself gets no permission, so the answer need not wait for its end. The job returns
// then, and other jobs are started at once.
func TestAStartIsCalledOffBeforeTheProcessNamesItself(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for id := range int64(3) {
			b.start(id + 1)
		}
		b.takeCalls()
		b.sendCallOff(7, 1)
		b.expectCalledOff(7)
		require.Equal(t, []string{"abandon 1"}, b.takeCalls())
		b.sendNamed(1)
		b.store.Quiet() // its name is not written
		b.sendCallOff(8, 1)
		b.expectCalledOff(8)
		b.queue.Quiet()
		b.sendHandshakeFailed(1, "the start was called off")
		b.sendGone(1, "exit status 1")
		b.expectGivenBack(1)
		require.Equal(t, []string{"start 3"}, b.takeCalls(), "the start has not failed")
		b.expectNoStartError()
	})
}

// A job that is called off often has no failed starts.
func TestCalledOffStartsDoNotCount(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for range 12 {
			b.start(1)
			b.sendCallOff(7, 1)
			b.expectCalledOff(7)
			b.run(2) // a start in between
			b.sendGone(2, handshake.CleanExit)
			b.answerReadJob(jobtest.Succeeded(2))
			b.expectEnded(2)
			b.Advance(time.Minute)
			b.sendGone(1, "exit status 1")
			b.expectGivenBack(1)
		}
	})
}

func TestAStartThatWaitsIsCalledOff(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for id := range int64(4) {
			b.start(id + 1)
		}
		require.Equal(t, []string{"start 1", "start 2"}, b.takeCalls())
		b.sendCallOff(7, 3, 4, 99)
		b.expectGivenBack(3)
		b.expectGivenBack(4)
		b.expectCalledOff(7)
		require.Equal(t, []int64{1, 2}, b.listActive())
	})
}

// While the name of the process is being written, the answer waits until the file names no process.
func TestAStartIsCalledOffWhileTheNameIsWritten(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.sendCallOff(7, 1)
		require.Equal(t, []string{"start 1", "abandon 1"}, b.takeCalls())
		b.answerWrite(1, nil)
		require.Empty(t, b.takeCalls(), "it is not confirmed")
		b.sendGone(1, "exit status 1")
		b.answerReadJob(jobtest.Named(1))
		b.client.Quiet()
		require.Equal(t, undone(1), b.answerWrite(1, nil))
		b.expectGivenBack(1)
		b.expectCalledOff(7)
		b.expectNoStartError()
	})
}

// A disk that does not write delays the return of the job, and not the answer: no process may act.
func TestACallOffDoesNotWaitForTheDisk(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.sendCallOff(7, 1)
		b.client.Quiet()
		b.Advance(time.Second)
		b.expectCalledOff(7)
	})
}

// A confirmed process begins its first opcode without a question. The answer waits for its report.
func TestAConfirmedStartIsTooLateToCallOff(t *testing.T) {
	executes := jobtest.Running(1)
	for name, c := range map[string]struct {
		happens  func(b *bench)
		mayBegin []int64
	}{
		"it executes": {func(b *bench) { b.report(executes) }, nil},
		"it ends": {func(b *bench) {
			b.sendGone(1, handshake.CleanExit)
			b.answerReadJob(jobtest.Succeeded(1))
			b.expectEnded(1)
		}, nil},
		"it reports late":   {func(b *bench) { b.Advance(time.Second) }, []int64{1}},
		"its locks go back": {func(b *bench) { b.asksToBegin(1, 0); b.answerBeginWait(true) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				b.run(1)
				b.sendCallOff(7, 1)
				require.Empty(t, b.takeCalls())
				b.answerBeginWait(false)
				waiting := jobtest.Named(1)
				waiting.Ops[0].Status = job.Waiting
				b.report(waiting)
				b.client.Quiet()
				c.happens(b)
				b.expectCalledOff(7, c.mayBegin...)
			})
		})
	}
}

// asksToBegin sends the question of a process, and takes it in the place of the scheduler.
func (b *bench) asksToBegin(id int64, op int32) {
	b.Helper()
	b.client.Ask(b.jobs, &messages.BeginOp{Request: 3, Id: id, Livelock: jobtest.Livelock(id), Op: op})
	b.Settle()
	require.Equal(b, op, kittest.Expect[*messages.BeginOp](b.scheduler).Op)
}

// A process that waits for its permission before the CallOff, or that executes an opcode, delays no answer.
func TestAJobThatRestsNeedsNoTime(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.report(jobtest.Running(1))
		b.sendCallOff(7, 1)
		b.expectCalledOff(7)

		b.run(2)
		b.sendCallOff(8, 2, 1)
		b.answerBeginWait(true)
		b.expectCalledOff(8)
	})
}

// An answer of the scheduler to an earlier CallOff does not count: the job may have been released since.
func TestALateAnswerOfTheSchedulerDoesNotCount(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.sendCallOff(7, 1)
		m, from := kittest.ExpectFrom[*messages.GetBeginWait](b.scheduler)
		b.sendCallOff(8, 1)
		b.scheduler.Ask(from, &messages.GetBeginWaitResult{Request: m.Request, Waits: true})
		b.Settle()
		b.client.Quiet()
		b.answerBeginWait(true) // the second question
		require.Equal(t, uint64(7), kittest.Expect[*messages.CallOffResult](b.client).Request)
		b.expectCalledOff(8)
	})
}

// The next actor of the job is asked. Without its answer the process may begin an opcode.
func TestAJobActorCrashesDuringACallOff(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.sendCallOff(7, 1)
		b.Crash(b.port.last[1].to)
		b.client.Quiet()
		b.Advance(time.Second)
		b.expectCalledOff(7, 1)
		b.answerReadJob(jobtest.Running(1))
		b.sendCallOff(8, 1)
		b.expectCalledOff(8)

		b.start(2)
		b.sendCallOff(9, 2)
		b.expectCalledOff(9)
		b.takeCalls()
		b.Crash(b.port.last[2].to)
		b.sendCallOff(10, 2)
		b.Advance(time.Second)
		b.answerReadJob(jobtest.Queued(2)) // its process was never named
		kittest.Expect[*messages.JobProgressed](b.queue)
		b.expectGivenBack(2)
		b.expectCalledOff(10)
	})
}

func TestACancelOfACalledOffStart(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendCallOff(7, 1)
		b.expectCalledOff(7)
		b.order(&messages.OrderJob{Request: 5, Id: 1})
		b.sendGone(1, "exit status 1")
		b.answerReadJob(jobtest.Queued(1))
		require.Equal(t, job.Canceled, b.answerWrite(1, nil).Status())
		require.Equal(t, job.Canceled, b.expectEnded(1).Status())
		done, text := b.expectOrderResult(5)
		require.True(t, done)
		require.Equal(t, "Dequeued job 1", text)
	})
}

// A cluster calls off a start whether or not its log will name the process. The file keeps the number of the start.
func TestAClusterCallsOffWhatItsLogNames(t *testing.T) {
	onNode(t, 0, func(t *testing.T, n *node) {
		n.start(1)
		n.sendCallOff(7, 1)
		n.expectCalledOff(7)
		require.Equal(t, []string{"start 1", "abandon 1"}, n.takeCalls())
		n.sendGone(1, "exit status 1")
		n.expectGivenBack(1)

		n.start(2)
		n.sendNamed(2)
		n.sendCallOff(8, 2)
		require.Equal(t, []string{"start 2", "abandon 2"}, n.takeCalls())
		n.sendGone(2, "exit status 1")
		n.answerWrite(2, nil)
		n.answerReadJob(jobtest.Named(2))
		n.client.Quiet()
		require.Equal(t, undone(2), n.answerWrite(2, nil))
		n.expectGivenBack(2)
		n.expectCalledOff(8)
	})
}
