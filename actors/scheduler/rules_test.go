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

func (b *bench) change(verdicts ...*messages.Verdict) {
	b.tell(&messages.VerdictsChanged{Verdicts: verdicts})
	b.Settle()
}

// withholds is what the lock manager has been told since the last call.
func (b *bench) withholds() map[int64]bool {
	b.Helper()
	all := map[int64]bool{}
	for _, m := range told[*messages.SetLockPause](b, b.locks) {
		all[m.Id] = m.Paused
	}
	return all
}

func (b *bench) askedLocks() {
	b.Helper()
	kittest.Expect[*messages.PublishLocks](b.locks)
}

func TestAPausedJobIsNotPicked(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(nil, all(under(plain(1)[0], pausing(1)), plain(2)[0], plain(3)[0]))
		require.Equal(t, []int64{2}, b.picked())
		b.change(accepting(1), pausing(3), pausing(99))
		b.left(2)
		require.Equal(t, []int64{1}, b.picked())
		b.left(1)
		require.Empty(t, b.picked())
		b.change(accepting(3))
		require.Equal(t, []int64{3}, b.picked())
		b.add(under(plain(4)[0], pausing(4)))
		b.left(3)
		require.Empty(t, b.picked())
		b.askedLocks()
		require.Empty(t, b.withholds(), "none of them had a process")
	})
}

func TestAPausedJobThatRunsDoesNotBeginItsNextOpcode(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(all(waiting(1, jobtest.Delay(), jobtest.Delay())), plain(2, 3))
		b.askedLocks()
		b.change(pausing(1))
		require.Equal(t, map[int64]bool{1: true}, b.withholds())
		require.Empty(t, b.picked(), "its opcode goes on, and keeps its slot")
		b.change(&messages.Verdict{Id: 1, Rule: "another", Action: int32(filter.Pause)})
		require.Empty(t, b.withholds())
		b.begin(7, 1, 1)
		require.Empty(t, b.begun())
		require.Equal(t, []int64{2}, b.picked(), "the slot is free")

		b.change(accepting(1))
		require.Equal(t, map[int64]bool{1: false}, b.withholds())
		require.Empty(t, b.begun(), "there is no slot")
		b.left(2)
		require.Equal(t, []uint64{7}, b.begun())
		require.Empty(t, b.picked(), "it goes before those that came after it")
		b.ended(1, job.Success)
		require.Equal(t, []int64{3}, b.picked())
		require.Empty(t, b.withholds())
	})
}

// A pause in the middle of an opcode that is lifted before its end is not noticed.
func TestAPauseThatIsShort(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(all(waiting(1, jobtest.Delay(), jobtest.Delay())), plain(2))
		b.change(pausing(1))
		b.change(accepting(1))
		b.begin(7, 1, 1)
		require.Equal(t, []uint64{7}, b.begun())
		require.Empty(t, b.picked())
	})
}

// Whose locks were withheld must be able to take some when he comes back.
func TestAPausedJobThatLeaves(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(plain(1), nil)
		b.askedLocks()
		b.change(pausing(1))
		require.Equal(t, map[int64]bool{1: true}, b.withholds())
		b.left(1)
		require.Equal(t, map[int64]bool{1: false}, b.withholds())
		b.add(under(plain(1)[0], pausing(1)))
		b.change(accepting(1))
		require.Equal(t, []int64{1}, b.picked())
		require.Empty(t, b.withholds())
	})
}

func TestTheLockManagerIsToldWhoIsPaused(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.populate(all(under(waiting(3, jobtest.Delay(), jobtest.Delay()), pausing(3)), plain(4)[0], under(plain(5)[0], pausing(5))),
			all(under(plain(6)[0], pausing(6))))
		told := b.locks.Unread()
		require.Len(t, told, 3)
		require.EqualExportedValues(t, &messages.SetLockPause{Id: 3, Paused: true}, told[0])
		require.EqualExportedValues(t, &messages.SetLockPause{Id: 5, Paused: true}, told[1])
		require.IsType(t, &messages.PublishLocks{}, told[2])
		b.begin(7, 3, 1) // held without a slot
		b.locks.Ask(b.scheduler, &locks.Published{Complete: true, Incarnation: 2})
		told = b.locks.Unread()
		require.Len(t, told, 1)
		require.EqualExportedValues(t, &messages.SetLockPauses{Incarnation: 2, Ids: []int64{3, 5}}, told[0])
	})
}

// Who does not know who is paused does not say that it has told all.
func TestTheLockManagerIsNotToldTooEarly(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.locks.Ask(b.scheduler, &locks.Published{Complete: true, Incarnation: 1})
		b.locks.Quiet()
	})
}

// The queue restarts, and meanwhile the rules change.
func TestWhoIsNotPausedAnyMoreInANewPopulation(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.populate(plain(1, 2, 3), nil)
		b.askedLocks()
		b.change(pausing(1), pausing(2), pausing(3))
		require.Len(t, b.withholds(), 3)
		b.tell(&messages.QueueStarted{Incarnation: 2})
		b.change(accepting(1)) // which is in the population
		b.locks.Quiet()
		b.populate(all(plain(1)[0], under(plain(2)[0], pausing(2)), under(plain(4)[0], pausing(4))), nil)
		b.askedLocks()
		require.Equal(t, map[int64]bool{1: false, 3: false, 4: true}, b.withholds())
	})
}

// The queue cancels those that wait. Those that run go on.
func TestRejectedJobs(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.populate(all(under(waiting(1, jobtest.Delay(), jobtest.Delay()), rejecting(1))), all(under(plain(2)[0], rejecting(2))))
		b.begin(7, 1, 1)
		require.Equal(t, []uint64{7}, b.begun())
		b.change(accepting(1), rejecting(1))
		b.begin(8, 1, 1)
		require.Equal(t, []uint64{8}, b.begun())
		require.Empty(t, b.picked())
		b.change(accepting(2))
		require.Equal(t, []int64{2}, b.picked())
	})
}

func TestARuleThatLimits(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		b.populate(all(under(plain(1)[0], limiting(1, 2))), all(under(plain(2)[0], limiting(2, 2)), under(plain(3)[0], limiting(3, 2)),
			plain(4)[0], under(plain(5)[0], limiting(5, 2))))
		require.Equal(t, []int64{2, 4}, b.picked())
		b.left(1)
		require.Equal(t, []int64{3}, b.picked())
		b.change(limiting(2, 3), limiting(3, 3), limiting(5, 3))
		require.Equal(t, []int64{5}, b.picked())
		b.add(under(plain(6)[0], limiting(6, 3)))
		require.Empty(t, b.picked())
		b.change(accepting(2)) // the rule does not apply to one that runs any more
		require.Equal(t, []int64{6}, b.picked())
	})
}

func TestLimitsInReasonTrails(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		limited := func(id int64) *messages.UnfinishedJob {
			return waiting(id, jobtest.Delay(because("rate-limit:2:bunny")))
		}
		other := func(id int64) *messages.UnfinishedJob {
			return waiting(id, jobtest.Delay(because("rate-limit:1:bunny")))
		}
		b.populate(all(limited(1)), all(limited(2), limited(3), other(4), other(5), plain(6)[0]))
		require.Equal(t, []int64{2, 4, 6}, b.picked())
		b.left(1, 4)
		require.Equal(t, []int64{3, 5}, b.picked())
	})
}

// A job that is held between opcodes does not count: the one that it waits for may
// need the place. To go on it takes one again.
func TestAHeldJobGivesItsLimitsBack(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		slow := because("rate-limit:1:x")
		b.populate(nil, all(waiting(1, jobtest.Delay(slow), jobtest.Delay(slow)), waiting(2, jobtest.Delay(slow))))
		require.Equal(t, []int64{1}, b.picked())
		b.change(pausing(1))
		b.begin(7, 1, 1)
		require.Equal(t, []int64{2}, b.picked())
		b.change(accepting(1))
		require.Empty(t, b.begun())
		b.left(2)
		require.Equal(t, []uint64{7}, b.begun())
	})
}

// Both must let a job go: its dependencies and the rules.
func TestAPausedJobThatWaitsForAnother(t *testing.T) {
	onBench(t, 10, func(t *testing.T, b *bench) {
		b.populate(plain(1), all(under(waiting(2, jobtest.Delay(on(1))), pausing(2)), under(waiting(3, jobtest.Delay(on(1))), pausing(3))))
		b.heard(held(2), held(3))
		b.change(accepting(3))
		b.heard()
		b.ended(1, job.Success)
		b.heard(notHeld(2), notHeld(3), picks(3))
		b.change(accepting(2))
		b.heard(picks(2))
	})
}
