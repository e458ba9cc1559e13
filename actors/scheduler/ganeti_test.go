package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/lock"
	"lockstep/messages"
)

// ganetiOwner is the process of a job.
func ganetiOwner(id int64) lock.Owner { return lock.JobOwner(job.ID(id), "/live", 100) }

// takePauses returns what the lock manager was sent, in order.
func (b *bench) takePauses() []*messages.SetLockPause {
	b.Helper()
	return takeAll[*messages.SetLockPause](b, b.locks)
}

// waitsWithheld has the lock manager say that it withholds the request of a job's process for the big lock.
func (b *bench) waitsWithheld(id int64, pause uint64) {
	request := lock.Request{{Lock: lock.BGL, Mode: lock.Shared}}
	record := lock.Record{Owner: ganetiOwner(id), Pending: &lock.Pending{Owner: ganetiOwner(id), Request: request}}
	b.locks.Ask(b.scheduler, &locks.OwnersPublished{Records: []lock.Record{record}, Withheld: []locks.Withheld{{Owner: ganetiOwner(id), Pause: pause}}})
	b.Settle()
}

// The process of a job waits for its locks when it begins an opcode. While the job is paused or held its request is withheld, and
// it gives its run slot back. Afterwards it needs a slot, and then its request is not withheld.
func TestAPausedJobWhoseProcessDoesNotAsk(t *testing.T) {
	onGanetiBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(unfinished(1, jobtest.Delay(), jobtest.Delay()), plainJobs(2)[0]))
		b.expectPublishLocks()
		require.Equal(t, []int64{1}, b.takePicked())
		b.sendVerdicts(pausing(1))
		pauses := b.takePauses()
		require.Len(t, pauses, 1)
		first := pauses[0].Withhold
		require.NotZero(t, first)
		require.Empty(t, b.takePicked(), "its opcode executes")
		b.process.Ask(b.scheduler, &messages.GetBeginWait{Request: 5, Id: 1})
		b.Settle()
		b.process.Quiet()

		b.waitsWithheld(1, first)
		require.Equal(t, []int64{2}, b.takePicked())
		require.EqualExportedValues(t, &messages.GetBeginWaitResult{Request: 5, Waits: true}, kittest.Expect[*messages.GetBeginWaitResult](b.process))
		require.Contains(t, b.explain(1), "pink bunny")
		b.sendVerdicts(accepting(1))
		require.Empty(t, b.takePauses(), "it has no slot")
		b.sendReleased(2)
		b.Settle()
		require.EqualExportedValues(t, []*messages.SetLockPause{{Id: 1}}, b.takePauses())
		require.Empty(t, b.takePicked())
		b.add(plainJobs(3)...)
		require.Empty(t, b.takePicked(), "the slot is taken")

		b.waitsWithheld(1, first) // which was on its way
		require.Empty(t, b.takePicked())
		b.send(&messages.HoldChanged{Id: 1, Held: true, By: "root"})
		b.Settle()
		second := b.takePauses()[0].Withhold
		require.NotEqual(t, first, second)
		b.waitsWithheld(1, first) // as well
		require.Empty(t, b.takePicked())
		b.waitsWithheld(1, second)
		require.Equal(t, []int64{3}, b.takePicked())
		b.send(&messages.JobReleased{Id: 1, Ended: true, Status: int32(job.Canceled)})
		b.Settle()
		require.EqualExportedValues(t, []*messages.SetLockPause{{Id: 1}}, b.takePauses())
	})
}

// A rejected job is canceled when its process waits for locks, each time that it does. An opcode that executes goes on.
func TestARejectedJobWhoseProcessDoesNotAsk(t *testing.T) {
	onGanetiBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), nil)
		b.expectPublishLocks()
		b.sendVerdicts(rejecting(1))
		pause := b.takePauses()[0].Withhold
		require.Empty(t, b.queue.Unread())
		for range 2 {
			b.waitsWithheld(1, pause)
			require.EqualExportedValues(t, &messages.OrderJob{Id: 1, Kind: messages.OrderJob_CANCEL, Rejection: rejecting(1)}, kittest.Expect[*messages.OrderJob](b.queue))
		}
	})
}

// A restarted lock manager gets the numbers of the pauses. After a restart of the scheduler, jobs whose processes wait for a slot
// do not exceed the slots.
func TestProcessesThatDoNotAskAfterARestart(t *testing.T) {
	onGanetiBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(withVerdict(plainJobs(1)[0], pausing(1)), plainJobs(2)[0], plainJobs(3)[0]), nil)
		b.expectPublishLocks()
		pauses := b.takePauses()
		require.Len(t, pauses, 3, "two have no slot")
		b.locks.Ask(b.scheduler, &locks.OwnersPublished{Complete: true, Incarnation: 2})
		require.EqualExportedValues(t, []*messages.SetLockPauses{{Incarnation: 2, Withheld: pauses}}, takeAll[*messages.SetLockPauses](b, b.locks))
		b.waitsWithheld(2, pauses[1].Withhold)
		b.waitsWithheld(1, pauses[0].Withhold)
		require.Empty(t, b.takePauses())
		b.waitsWithheld(3, pauses[2].Withhold) // the slot is its own
		require.EqualExportedValues(t, []*messages.SetLockPause{{Id: 3}}, b.takePauses())
		b.sendReleased(3)
		b.Settle()
		require.EqualExportedValues(t, []*messages.SetLockPause{{Id: 2}}, b.takePauses())
	})
}
