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

// The crash of a job actor affects only its job, and not the process, which is adopted
// again.
func TestAJobActorCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.run(2)
		b.Crash(b.port.last[1].to)
		// The port does not end a confirmed process.
		require.NotContains(t, b.takeCalls(), "abandon 2")
		require.Equal(t, []int64{1, 2}, b.listActive())
		b.queue.Quiet()
		b.Advance(time.Second - 1)
		b.store.Quiet()
		b.Advance(1)
		b.answerReadJob(jobtest.Running(1))
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
		b.sendGone(1, handshake.CleanExit)
		b.answerReadJob(jobtest.Succeeded(1))
		require.Equal(t, job.Success, b.expectEnded(1).Status())
		b.sendGone(2, handshake.CleanExit)
		b.answerReadJob(jobtest.Succeeded(2))
		b.expectEnded(2)
	})
}

// The delay grows with each crash of a job's actor.
func TestAJobActorCrashesAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		for _, delay := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
			b.Crash(b.port.last[1].to)
			b.Advance(delay*time.Second - 1)
			b.store.Quiet()
			b.Advance(1)
			b.answerReadJob(jobtest.Running(1))
		}
		require.Equal(t, []int64{1}, b.listActive())
	})
}

// A process without permission is ended, and the job is started again.
func TestAJobActorCrashesDuringTheHandshake(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.Crash(b.port.last[1].to)
		require.Contains(t, b.takeCalls(), "abandon 1")
		b.store.Unread() // the write may or may not be done
		b.Advance(time.Second)
		b.answerReadJob(jobtest.Queued(1))
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReturned](b.queue).Id)
		require.NotContains(t, b.takeCalls(), "confirm 1 with [null]")
	})
}

func TestTheJobsActorCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.Restart(b.jobs)
		require.Equal(t, uint64(2), kittest.Expect[*messages.JobsActorStarted](b.queue).Incarnation)
		require.Empty(t, b.listActive())
		require.Empty(t, b.takeCalls()) // the confirmed process is left alone
		former := b.port.last[1]
		b.adopt(jobtest.Running(1))
		b.answerReadJob(jobtest.Running(1))
		require.Greater(t, b.port.last[1].number, former.number)
		require.Equal(t, []string{"adopt 1 pid 100 " + jobtest.Livelock(1)}, b.takeCalls())
		b.sendGone(1, handshake.CleanExit)
		b.answerReadJob(jobtest.Succeeded(1))
		b.expectEnded(1)
	})
}

// Without the jobs actor a process would never get its permission: it is ended.
func TestTheJobsActorCrashesDuringAHandshake(t *testing.T) {
	for name, before := range map[string]func(*bench){
		"spawning": func(b *bench) { b.start(1) },
		"saving":   func(b *bench) { b.start(1); b.sendNamed(1) },
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, func(t *testing.T, b *bench) {
				before(b)
				b.takeCalls()
				b.Restart(b.jobs)
				require.Equal(t, []string{"abandon 1"}, b.takeCalls())
			})
		})
	}
}

// A later incarnation has the job from the queue, and ignores a timer of a former one.
func TestTheJobsActorCrashesAfterAJobActor(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.Crash(b.port.last[1].to)
		b.Advance(time.Second)
		b.answerReadJob(jobtest.Running(1))
		b.Crash(b.port.last[1].to) // it is adopted again after two seconds
		b.Restart(b.jobs)          // after one second
		b.takeCalls()
		b.start(2)
		b.start(3)
		b.start(1) // it waits for a free handshake
		b.Advance(time.Minute)
		require.Equal(t, []string{"start 2", "start 3"}, b.takeCalls())
		b.store.Quiet()
		b.sendGone(2, "")
		require.Equal(t, []string{"start 1"}, b.takeCalls())
	})
}

func TestDrainOfIdleJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1) // the job continues
		b.client.Ask(b.jobs, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.client)
		b.start(2)
		require.Empty(t, b.takeCalls())
		b.client.Ask(b.jobs, &messages.Drain{}) // Drain may be repeated
		kittest.Expect[*messages.DrainResult](b.client)
	})
}

func TestDrainWaitsForHandshakes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		for id := int64(1); id <= 3; id++ {
			b.start(id)
		}
		b.takeCalls()
		b.client.Ask(b.jobs, &messages.Drain{})
		b.client.Quiet()
		b.sendNamed(1)
		b.answerWrite(1, nil)
		b.client.Quiet()
		b.sendConfirmed(1)
		b.client.Quiet()
		b.sendHandshakeFailed(2, "it said nonsense")
		b.client.Quiet()
		b.sendGone(2, "exit status 1")
		kittest.Expect[*messages.DrainResult](b.client)
		require.Equal(t, []string{"confirm 1 with [null]", "abandon 2"}, b.takeCalls())
		b.client.Quiet()
	})
}
