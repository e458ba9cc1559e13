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

// A job actor's crash touches that job alone, and not its process: that is
// adopted anew.
func TestAJobActorCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.run(2)
		b.Crash(b.port.last[1].to)
		// The port leaves a process alone that has its permission.
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

// A job whose actor crashes again and again is tried ever more rarely.
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

// Before the permission the process is made away with, and the job begins anew.
func TestAJobActorCrashesDuringTheHandshake(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.start(1)
		b.sendNamed(1)
		b.Crash(b.port.last[1].to)
		require.Contains(t, b.takeCalls(), "abandon 1")
		b.store.Unread() // the write may or may not have been done
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
		require.Empty(t, b.takeCalls()) // the process that may act is left alone
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

// Nobody is left who could give a process its permission: it is called off, or it
// would wait for good.
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

// What a former incarnation wanted to do about a job is not for the next: that
// has heard of the job from the queue.
func TestTheJobsActorCrashesAfterAJobActor(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1)
		b.Crash(b.port.last[1].to)
		b.Advance(time.Second)
		b.answerReadJob(jobtest.Running(1))
		b.Crash(b.port.last[1].to) // to be adopted again after two seconds
		b.Restart(b.jobs)          // after one
		b.takeCalls()
		b.start(2)
		b.start(3)
		b.start(1) // waits for the others' handshakes
		b.Advance(time.Minute)
		require.Equal(t, []string{"start 2", "start 3"}, b.takeCalls())
		b.store.Quiet()
		b.sendGone(2, "")
		require.Equal(t, []string{"start 1"}, b.takeCalls())
	})
}

func TestDrainOfIdleJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.run(1) // goes on
		b.client.Ask(b.jobs, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.client)
		b.start(2)
		require.Empty(t, b.takeCalls())
		b.client.Ask(b.jobs, &messages.Drain{}) // whoever is in doubt may ask again
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
