package scheduler_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/scheduler"
	"lockstep/core/forecast"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/sched"
	"lockstep/messages"
)

// retriedAt is a job whose second try begins at a time.
func retriedAt(at time.Time, id int64) *messages.UnfinishedJob {
	w := unfinished(id, jobtest.Delay())
	w.DueUs, w.Try = at.UnixMicro(), &messages.Try{Number: 2, Most: 6, Last: "exit 75"}
	return w
}

// A job that is not due takes no slot from others. It is picked when its time has come, without another message.
func TestAJobIsPickedAtItsTime(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		due := b.Env.Env.Clock().Now().Add(time.Minute)
		b.answerJobsRequest(nil, all(retriedAt(due, 1), retriedAt(due.Add(time.Second), 2)))
		require.Empty(t, b.takePicked())
		require.Contains(t, b.explain(1), `"due"`)
		b.enqueue(3)
		require.Equal(t, []int64{3}, b.takePicked())
		b.sendReleased(3)
		b.Advance(time.Minute - time.Millisecond)
		require.Empty(t, b.takePicked())
		b.Advance(time.Millisecond)
		require.Equal(t, []int64{1}, b.takePicked())
		b.Advance(time.Hour)
		require.Empty(t, b.takePicked(), "the slot is taken")
		b.sendReleased(1)
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

// A held job that is due stays held, and one that has ended is not picked at its time.
func TestATimeLiftsNoHold(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		held := retriedAt(b.Env.Env.Clock().Now().Add(time.Minute), 1)
		held.Held, held.HeldBy = true, "ann"
		b.answerJobsRequest(nil, all(held, retriedAt(b.Env.Env.Clock().Now().Add(time.Minute), 2)))
		b.sendEnded(2, job.Canceled)
		b.Advance(time.Hour)
		require.Empty(t, b.takePicked())
		b.send(&messages.HoldChanged{Id: 1})
		require.Equal(t, []int64{1}, b.takePicked())
	})
}

// There is no estimate for a job between two tries: it is not known how many tries the command takes.
func TestASnapshotOfAJobThatIsNotDue(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		b.answerJobsRequest(nil, all(retriedAt(b.Env.Env.Clock().Now().Add(time.Minute), 1)))
		w := b.snapshot(1).World()
		require.Empty(t, w.First)
		require.Equal(t, []job.ID{1}, idsOf(w.Waiting))
		require.Equal(t, forecast.Due, w.Waiting[0].Obstacle)
	})
}

// The jobs that only wait for their time are in a snapshot that asks for them, in the order of their times. One that is held is not.
func TestASnapshotOfTheJobsThatAreNotDue(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		now := b.Env.Env.Clock().Now()
		held := retriedAt(now.Add(time.Second), 3)
		held.Held, held.HeldBy = true, "ann"
		b.answerJobsRequest(nil, all(retriedAt(now.Add(time.Minute), 1), retriedAt(now.Add(time.Second), 2), held, retriedAt(now.Add(time.Second), 4)))
		b.sendEnded(4, job.Canceled)
		require.Empty(t, b.snapshot().World().Waiting)
		b.process.Ask(b.scheduler, &scheduler.TakeSnapshot{Request: 5, NotDue: true})
		w := kittest.Expect[*scheduler.Snapshot](b.process).World()
		require.Equal(t, []job.ID{2, 1}, idsOf(w.Waiting))
		for _, order := range []sched.Order{sched.Expected, sched.Plain} {
			w.Settings.Order = order
			estimates := forecast.Estimates(w, func() bool { return true })
			require.Len(t, estimates, 2)
			require.Equal(t, forecast.Due, estimates[0].Obstacle)
			require.Equal(t, now.Add(time.Second).UnixMicro(), estimates[0].LaterThan.UnixMicro())
			require.Equal(t, now.Add(time.Minute).UnixMicro(), estimates[1].LaterThan.UnixMicro())
		}
	})
}
