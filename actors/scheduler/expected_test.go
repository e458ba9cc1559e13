package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/messages"
)

// A job whose locks are taken does not start, although a slot is free; it starts in the moment in which they are free.
func TestOnlyJobsThatCanGetTheirLocksStart(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		b.answerJobsRequest(nil, all(unfinished(1, lockingNode("a")), unfinished(2, lockingNode("a")), unfinished(3, lockingNode("b"))))
		require.ElementsMatch(t, []int64{1, 3}, b.takePicked())
		require.JSONEq(t, `[{"kind": "order", "position": 1, "pending": 1, "predictive": false, "blocked_by": [{"job": 1, "locks": ["node/a"], "holds": false}]}]`, b.explain(2))
		b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: node("a")})
		require.JSONEq(t, `[{"kind": "order", "position": 1, "pending": 1, "predictive": false, "blocked_by": [{"job": 1, "locks": ["node/a"], "holds": true}]}]`, b.explain(2))
		b.sendLocks(false, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7)})
		b.sendEnded(1, job.Success)
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

// Jobs that only locks keep from starting are shown as waiting while a slot is left for them, until they start.
func TestJobsThatOnlyLocksHoldBackAreShownAsWaiting(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(2, `{"order": "expected"}`)
		b.answerJobsRequest(nil, all(unfinished(1, lockingNode("a")), unfinished(2, lockingNode("a")), unfinished(3, lockingNode("a"))))
		b.expectQueueGets(picks(1), waitsForLocks(2))
		b.process.Ask(b.scheduler, &messages.ListDependencies{Request: 4, Marked: true})
		listed := kittest.Expect[*messages.ListDependenciesResult](b.process)
		require.Len(t, listed.Blocked, 1)
		require.Equal(t, int64(2), listed.Blocked[0].Id)

		changed := withPriority(-5, 2, lockingNode("a")) // with a new priority it is shown as before
		changed.Wait = messages.StartWait_FOR_LOCKS
		b.sendReleased(2)
		b.queue.Quiet() // there is no room for job 3 while job 2 is changed
		b.add(changed)
		b.queue.Quiet()

		b.send(&messages.HoldChanged{Id: 2, Held: true})
		b.expectQueueGets(waitsNoLonger(2), waitsForLocks(3))
		b.sendEnded(1, job.Success)
		b.expectQueueGets(picks(3))
	})
}

// The jobs that are not started because of locks are listed with the owners of these locks.
func TestJobsThatAreNotStartedBecauseOfLocksAreListed(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		received := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
		b.answerJobsRequest(all(unfinished(1, lockingNode("a"))), all(withPriority(3, 2, lockingNode("a")), unfinished(3, lockingNode("b"))))
		require.Equal(t, []int64{3}, b.takePicked())
		b.sendLocks(true, lock.Record{Owner: lock.JobOwner(1, "/l/1", 7), Locks: node("a")})
		for _, wanted := range []bool{true, false} {
			b.process.Ask(b.scheduler, &messages.ListDependencies{Request: 4, Blocked: wanted})
			want := []*messages.LockBlockedJob{{Id: 2, Priority: 3, ReceivedUs: received.UnixMicro(),
				Wanted:    []*messages.WantedLock{{Lock: "cluster/BGL"}, {Lock: "node/a", Exclusive: true}},
				BlockedBy: []*messages.LockBlocker{{Job: 1, Locks: []string{"node/a"}, Holds: true}}}}
			if !wanted {
				want = nil
			}
			a := kittest.Expect[*messages.ListDependenciesResult](b.process)
			require.EqualExportedValues(t, &messages.ListDependenciesResult{Request: 4, Blocked: want}, a)
		}
	})
}

// The oldest job past reserve_after is named as the reason for others.
func TestAReservationIsExplained(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected", "reserve_after": 60}`)
		b.answerJobsRequest(all(unfinished(1, lockingNode("a"))), all(unfinished(2, lockingNode("a"), lockingNode("a"))))
		b.Advance(2 * time.Hour)
		both := `{"OP_ID": "OP_RUN_COMMAND", "argv": ["x"], "locks": [["node/a", "exclusive"], ["node/b", "exclusive"]]}`
		b.add(unfinished(3, both))
		require.Empty(t, b.takePicked())
		require.JSONEq(t, `[{"kind": "order", "position": 2, "pending": 2, "predictive": false, "blocked_by": [{"job": 1, "locks": ["node/a"], "holds": false}], "reserves": true}]`, b.explain(2))
	})
}

// A job that is less urgent than one with a reservation for the same locks is told of it, and that nothing is promised.
func TestWhatIsBeforeALessUrgentJobIsExplained(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(5, `{"order": "expected"}`)
		b.answerJobsRequest(all(unfinished(1, lockingNode("a"))), all(withPriority(-10, 2, lockingNode("a")), unfinished(3, lockingNode("a")), unfinished(4, lockingNode("a"))))
		require.Empty(t, b.takePicked())
		require.JSONEq(t, `[{"kind": "order", "position": 1, "pending": 3, "predictive": false, "blocked_by": [{"job": 1, "locks": ["node/a"], "holds": false}], "reserves": true}]`, b.explain(2))
		require.JSONEq(t, `[{"kind": "order", "position": 2, "pending": 3, "predictive": false, "blocked_by": [{"job": 1, "locks": ["node/a"], "holds": false}], "reserved_by": 2, "reservations_before": 1, "nothing_promised": true}]`, b.explain(3))
	})
}

// Between two opcodes a job whose next locks are taken gives its slot back, and goes before new jobs.
func TestAJobGivesItsSlotBackBetweenOpcodes(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		b.expectJobsRequest()
		b.reconfigure(2, `{"order": "expected"}`)
		b.answerJobsRequest(all(unfinished(1, lockingNode("a"), lockingNode("b"))), all(unfinished(2, lockingNode("b")), unfinished(3, lockingNode("c")), unfinished(4, lockingNode("b"))))
		require.Equal(t, []int64{2}, b.takePicked())
		b.sendBeginOp(7, 1, 1)
		require.Empty(t, b.takePermitted())
		require.Equal(t, []int64{3}, b.takePicked(), "the slot of job 1")
		b.sendEnded(2, job.Success)
		require.Equal(t, []uint64{7}, b.takePermitted(), "before job 4, which is new")
		require.Empty(t, b.takePicked())
	})
}

// A job past reserve_after starts at its promise although its locks are not free, and without a message that wakes the scheduler. Without a bound on
// bypass the lock manager is told to let nothing overtake it, also after it has started anew.
func TestAJobPastReserveAfterStartsAtItsPromise(t *testing.T) {
	for bypass, told := range map[int]bool{0: true, 30: false} {
		onBench(t, 5, func(t *testing.T, b *bench) {
			b.expectJobsRequest()
			b.reconfigure(5, fmt.Sprintf(`{"order": "expected", "reserve_after": 60, "lock_bypass_after": %d}`, bypass))
			b.answerJobsRequest(nil, nil)
			aged := newJob(3, lockingNode("a"))
			aged.Received.Sec = b.Clock.Now().Unix()
			b.sendLocks(true, lock.Record{Owner: lock.NamedOwner("p", "/l/p", 7), Locks: node("a")})
			b.takeForbidden()
			b.add(kittest.Unfinished(aged))
			b.Settle()
			require.Empty(t, b.takePicked())
			b.Advance(59 * time.Second)
			require.Empty(t, b.takePicked())
			b.Advance(2 * time.Second)
			require.Equal(t, []int64{3}, b.takePicked(), "nobody knows when the program ends")
			require.Equal(t, told, slices.Contains(b.takeForbidden(), 3))
			b.sendLocks(true, lock.Record{Owner: lock.NamedOwner("p", "/l/p", 7), Locks: node("a")})
			require.Equal(t, told, slices.Contains(b.takeForbidden(), 3), "the lock manager is a new one")
			b.sendEnded(3, job.Success)
			b.Settle()
			require.Empty(t, b.takeForbidden())
		})
	}
}

// takeForbidden returns the jobs that the lock manager is to let nothing overtake, by the last message since the last call.
func (b *bench) takeForbidden() (ids []int64) {
	for _, m := range b.locks.Unread() {
		if f, is := m.(*locks.ForbidBypass); is {
			ids = f.Ids
		}
	}
	return ids
}
