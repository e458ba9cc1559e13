package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

func pausing(id int64) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: "r1", Action: int32(filter.Pause), Reason: "pink bunny"}
}

func rejecting(id int64) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: "r2", Action: int32(filter.Reject)}
}

func limiting(id, limit int64) *messages.Verdict {
	return &messages.Verdict{Id: id, Rule: "r3", Action: int32(filter.RateLimit), Limit: limit, Reason: "slowly"}
}

func accepting(id int64) *messages.Verdict { return &messages.Verdict{Id: id} }

func (b *bench) sendVerdicts(verdicts ...*messages.Verdict) {
	b.send(&messages.VerdictsChanged{Verdicts: verdicts})
	b.Settle()
}

// takeLockPauses returns the SetLockPause messages since the last call.
func (b *bench) takeLockPauses() map[int64]bool {
	b.Helper()
	all := map[int64]bool{}
	for _, m := range takeAll[*messages.SetLockPause](b, b.locks) {
		all[m.Id] = m.Paused
	}
	return all
}

func (b *bench) expectPublishLocks() {
	b.Helper()
	kittest.Expect[*messages.PublishLocks](b.locks)
}

func TestAPausedJobIsNotPicked(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(nil, all(withVerdict(plainJobs(1)[0], pausing(1)), plainJobs(2)[0], plainJobs(3)[0]))
		require.Equal(t, []int64{2}, b.takePicked())
		b.sendVerdicts(accepting(1), pausing(3), pausing(99))
		b.sendReleased(2)
		require.Equal(t, []int64{1}, b.takePicked())
		b.sendReleased(1)
		require.Empty(t, b.takePicked())
		b.sendVerdicts(accepting(3))
		require.Equal(t, []int64{3}, b.takePicked())
		b.add(withVerdict(plainJobs(4)[0], pausing(4)))
		b.sendReleased(3)
		require.Empty(t, b.takePicked())
		b.expectPublishLocks()
		require.Empty(t, b.takeLockPauses(), "none of them had a process")
	})
}

func TestAPausedJobThatRunsDoesNotBeginItsNextOpcode(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), plainJobs(2, 3))
		b.expectPublishLocks()
		b.sendVerdicts(pausing(1))
		require.Equal(t, map[int64]bool{1: true}, b.takeLockPauses())
		require.Empty(t, b.takePicked(), "its opcode goes on, and keeps its slot")
		b.sendVerdicts(&messages.Verdict{Id: 1, Rule: "another", Action: int32(filter.Pause)})
		require.Empty(t, b.takeLockPauses())
		b.sendBeginOp(7, 1, 1)
		require.Empty(t, b.takePermitted())
		require.Equal(t, []int64{2}, b.takePicked(), "the slot is free")

		b.sendVerdicts(accepting(1))
		require.Equal(t, map[int64]bool{1: false}, b.takeLockPauses())
		require.Empty(t, b.takePermitted(), "there is no slot")
		b.sendReleased(2)
		require.Equal(t, []uint64{7}, b.takePermitted())
		require.Empty(t, b.takePicked(), "it goes before those that came after it")
		b.sendEnded(1, job.Success)
		require.Equal(t, []int64{3}, b.takePicked())
		require.Empty(t, b.takeLockPauses())
	})
}

// A pause that is lifted within an opcode has no effect on the job.
func TestAPauseThatIsShort(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), plainJobs(2))
		b.sendVerdicts(pausing(1))
		b.sendVerdicts(accepting(1))
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []uint64{7}, b.takePermitted())
		require.Empty(t, b.takePicked())
	})
}

// A job whose locks were withheld gets them again when it is enqueued again.
func TestAPausedJobThatLeaves(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), nil)
		b.expectPublishLocks()
		b.sendVerdicts(pausing(1))
		require.Equal(t, map[int64]bool{1: true}, b.takeLockPauses())
		b.sendReleased(1)
		require.Equal(t, map[int64]bool{1: false}, b.takeLockPauses())
		b.add(withVerdict(plainJobs(1)[0], pausing(1)))
		b.sendVerdicts(accepting(1))
		require.Equal(t, []int64{1}, b.takePicked())
		require.Empty(t, b.takeLockPauses())
	})
}

func TestTheLockManagerIsToldWhoIsPaused(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(withVerdict(unfinished(3, jobtest.Delay(), jobtest.Delay()), pausing(3)), plainJobs(4)[0], withVerdict(plainJobs(5)[0], pausing(5))),
			all(withVerdict(plainJobs(6)[0], pausing(6))))
		told := b.locks.Unread()
		require.Len(t, told, 3)
		require.EqualExportedValues(t, &messages.SetLockPause{Id: 3, Paused: true}, told[0])
		require.EqualExportedValues(t, &messages.SetLockPause{Id: 5, Paused: true}, told[1])
		require.IsType(t, &messages.PublishLocks{}, told[2])
		b.sendBeginOp(7, 3, 1) // it waits without a slot
		b.locks.Ask(b.scheduler, &locks.OwnersPublished{Complete: true, Incarnation: 2})
		told = b.locks.Unread()
		require.Len(t, told, 1)
		require.EqualExportedValues(t, &messages.SetLockPauses{Incarnation: 2, Ids: []int64{3, 5}}, told[0])
	})
}

// A scheduler that does not know the paused jobs does not send SetLockPauses.
func TestTheLockManagerIsNotToldTooEarly(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.locks.Ask(b.scheduler, &locks.OwnersPublished{Complete: true, Incarnation: 1})
		b.locks.Quiet()
	})
}

// Rules change while the queue restarts.
func TestWhoIsNotPausedAnyMoreInANewPopulation(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1, 2, 3), nil)
		b.expectPublishLocks()
		b.sendVerdicts(pausing(1), pausing(2), pausing(3))
		require.Len(t, b.takeLockPauses(), 3)
		b.send(&messages.QueueStarted{Incarnation: 2})
		b.sendVerdicts(accepting(1)) // which is in the result
		b.locks.Quiet()
		b.answerJobsRequest(all(plainJobs(1)[0], withVerdict(plainJobs(2)[0], pausing(2)), withVerdict(plainJobs(4)[0], pausing(4))), nil)
		b.expectPublishLocks()
		require.Equal(t, map[int64]bool{1: false, 3: false, 4: true}, b.takeLockPauses())
	})
}

// The queue cancels rejected pending jobs. The process of a rejected job ends it instead of its next opcode: between two opcodes
// at once, and while it waits for locks because its request is withdrawn.
func TestRejectedJobs(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		two := func(id int64) *messages.UnfinishedJob { return unfinished(id, jobtest.Delay(), jobtest.Delay()) }
		b.answerJobsRequest(all(withVerdict(two(1), rejecting(1)), two(3), two(4)), all(withVerdict(plainJobs(2)[0], rejecting(2))))
		b.expectPublishLocks()
		require.Equal(t, map[int64]bool{1: true}, b.takeLockPauses())
		denied := func(request uint64) {
			t.Helper()
			a := kittest.Expect[*messages.BeginOpResult](b.process)
			require.EqualExportedValues(t, &messages.BeginOpResult{Request: request, Denied: true, Canceled: true, Text: "rejected by filter rule r2"}, a)
		}
		b.sendBeginOp(7, 1, 1)
		denied(7)
		require.Contains(t, b.explain(1), "r2")
		b.sendBeginOp(8, 3, 1) // it executes its second opcode, or waits for locks
		require.Equal(t, []uint64{8}, b.takePermitted())
		b.sendVerdicts(pausing(4))
		b.sendBeginOp(9, 4, 1)
		require.Empty(t, b.takePermitted())
		b.takeLockPauses()
		b.sendVerdicts(rejecting(3), rejecting(4))
		denied(9)
		require.Equal(t, map[int64]bool{3: true}, b.takeLockPauses())
		b.sendBeginOp(10, 3, 1) // its request was withdrawn
		denied(10)
		require.Empty(t, b.takePicked())
		b.sendVerdicts(accepting(2))
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

func TestARuleThatLimits(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		b.answerJobsRequest(all(withVerdict(plainJobs(1)[0], limiting(1, 2))), all(withVerdict(plainJobs(2)[0], limiting(2, 2)), withVerdict(plainJobs(3)[0], limiting(3, 2)),
			plainJobs(4)[0], withVerdict(plainJobs(5)[0], limiting(5, 2))))
		require.Equal(t, []int64{2, 4}, b.takePicked())
		b.sendReleased(1)
		require.Equal(t, []int64{3}, b.takePicked())
		b.sendVerdicts(limiting(2, 3), limiting(3, 3), limiting(5, 3))
		require.Equal(t, []int64{5}, b.takePicked())
		b.add(withVerdict(plainJobs(6)[0], limiting(6, 3)))
		require.Empty(t, b.takePicked())
		b.sendVerdicts(accepting(2)) // the rule no longer applies to an active job
		require.Equal(t, []int64{6}, b.takePicked())
	})
}

func TestLimitsInReasonTrails(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		limited := func(id int64) *messages.UnfinishedJob {
			return unfinished(id, jobtest.Delay(withReason("rate-limit:2:bunny")))
		}
		other := func(id int64) *messages.UnfinishedJob {
			return unfinished(id, jobtest.Delay(withReason("rate-limit:1:bunny")))
		}
		b.answerJobsRequest(all(limited(1)), all(limited(2), limited(3), other(4), other(5), plainJobs(6)[0]))
		require.Equal(t, []int64{2, 4, 6}, b.takePicked())
		b.sendReleased(1, 4)
		require.Equal(t, []int64{3, 5}, b.takePicked())
	})
}

// A job that waits for dependencies between two opcodes does not count in its limits,
// because its dependency may need the place. To continue it needs a place again.
func TestAHeldJobGivesItsLimitsBack(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		slow := withReason("rate-limit:1:x")
		b.answerJobsRequest(nil, all(unfinished(1, jobtest.Delay(slow), jobtest.Delay(slow)), unfinished(2, jobtest.Delay(slow))))
		require.Equal(t, []int64{1}, b.takePicked())
		b.sendVerdicts(pausing(1))
		b.sendBeginOp(7, 1, 1)
		require.Equal(t, []int64{2}, b.takePicked())
		b.sendVerdicts(accepting(1))
		require.Empty(t, b.takePermitted())
		b.sendReleased(2)
		require.Equal(t, []uint64{7}, b.takePermitted())
	})
}

// A job needs both its dependencies and the rules.
func TestAPausedJobThatWaitsForAnother(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		b.answerJobsRequest(plainJobs(1), all(withVerdict(unfinished(2, jobtest.Delay(dependsOn(1))), pausing(2)), withVerdict(unfinished(3, jobtest.Delay(dependsOn(1))), pausing(3))))
		b.expectQueueGets(waitsForDependencies(2), waitsForDependencies(3))
		b.sendVerdicts(accepting(3))
		b.expectQueueGets()
		b.sendEnded(1, job.Success)
		b.expectQueueGets(waitsNoLonger(2), waitsNoLonger(3), picks(3))
		b.sendVerdicts(accepting(2))
		b.expectQueueGets(picks(2))
	})
}

// A held job does not start, and a running one does not begin its next opcode; no rule overrides the hold.
func TestAHeldJobDoesNotGoOn(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		held := plainJobs(2)[0]
		held.Held, held.HeldBy = true, "uid=0(root), pid=1"
		b.answerJobsRequest(all(unfinished(1, jobtest.Delay(), jobtest.Delay())), all(held))
		b.expectPublishLocks()
		require.Empty(t, b.takePicked())
		b.send(&messages.HoldChanged{Id: 1, Held: true, By: "uid=0(root), pid=1"})
		b.Settle()
		require.Equal(t, map[int64]bool{1: true}, b.takeLockPauses())
		b.sendVerdicts(accepting(1), accepting(2))
		b.sendBeginOp(7, 1, 1)
		require.Empty(t, b.takePermitted())
		require.Empty(t, b.takePicked())
		b.sendVerdicts(pausing(1))
		b.send(&messages.HoldChanged{Id: 1})
		b.Settle()
		require.Empty(t, b.takePermitted(), "the rule is in force too")
		require.Empty(t, b.takeLockPauses())
		b.sendVerdicts(accepting(1))
		require.Len(t, b.takePermitted(), 1)
		require.Equal(t, map[int64]bool{1: false}, b.takeLockPauses())
		b.send(&messages.HoldChanged{Id: 2})
		b.send(&messages.HoldChanged{Id: 99, Held: true})
		b.Settle()
		require.Equal(t, []int64{2}, b.takePicked())
	})
}
