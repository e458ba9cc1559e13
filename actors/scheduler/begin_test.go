package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

func TestTheNextOpcodeMayBegin(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(nil, all(waiting(1, jobtest.Delay(), jobtest.Delay())))
		b.heard(picks(1))
		b.begin(7, 1, 1)
		require.Equal(t, []uint64{7}, b.begun())
	})
}

func TestAJobThatIsNotKnownMayNot(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(nil, nil)
		b.begin(7, 1, 1)
		a := kittest.Expect[*messages.BeginOpResult](b.process)
		require.Equal(t, uint64(7), a.Request)
		require.Equal(t, messages.ClassJobLost, a.Failure.Class)
	})
}

func TestWhoAsksBeforeThePopulationIsKnownWaits(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.begin(7, 1, 1)
		b.begin(8, 2, 1)
		require.Empty(t, b.begun())
		b.populate(all(waiting(1, jobtest.Delay(), jobtest.Delay())), nil)
		answers := told[*messages.BeginOpResult](b, b.process)
		require.Len(t, answers, 2)
		require.Nil(t, answers[0].Failure)
		require.Equal(t, messages.ClassJobLost, answers[1].Failure.Class)
	})
}

// Of two questions only the last has somebody who waits for the answer.
func TestWhoAsksTwiceIsAnsweredOnce(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.chain()
		b.heard(picks(1))
		other := b.Probe("other")
		other.Ask(b.scheduler, &messages.BeginOp{Request: 1, Id: 2, Livelock: "l", Op: 1})
		b.heard()
		b.ended(1, job.Success)
		require.Empty(t, b.begun())
		require.Equal(t, uint64(1), kittest.Expect[*messages.BeginOpResult](other).Request)
		other.Quiet()
	})
}

func TestAJobThatLeavesWhileItWaits(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.chain()
		b.heard(picks(1))
		b.ended(2, job.Canceled)
		a := kittest.Expect[*messages.BeginOpResult](b.process)
		require.Equal(t, uint64(7), a.Request)
		require.Equal(t, messages.ClassJobLost, a.Failure.Class)
		b.ended(1, job.Success)
		b.process.Quiet()
		b.heard()
	})
}

// The queue restarts: who waits for permission does not ask again, or does so
// before the new population is known.
func TestWhoWaitsWhenTheQueueRestartsIsNotForgotten(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.chain()
		b.heard(picks(1))
		b.tell(&messages.QueueStarted{Incarnation: 2})
		b.tell(&messages.QueueStarted{Incarnation: 3})
		b.asked()
		job2 := newJob(2, jobtest.Delay(), jobtest.Delay(on(1, "success")))
		job2.Ops[0].Status, job2.Ops[1].Status = job.Success, job.Waiting
		b.populate(append(plain(1), kittest.Unfinished(job2)), nil)
		require.Empty(t, b.begun())
		b.heard()
		b.ended(1, job.Success)
		require.Equal(t, []uint64{7}, b.begun())
		b.process.Quiet()
	})
}

// What runs keeps its slot in the eyes of a new scheduler until its process asks
// whether it may go on.
func TestAJobThatWaitedWhenTheSchedulerRestarted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.chain()
		b.heard(picks(1))
		b.Restart(b.scheduler)
		job2 := newJob(2, jobtest.Delay(), jobtest.Delay(on(1, "success")))
		job2.Ops[0].Status, job2.Ops[1].Status = job.Success, job.Waiting
		b.populate(append(plain(1), kittest.Unfinished(job2)), plain(3))
		b.ended(1, job.Success)
		b.heard()
		b.begin(8, 2, 1)
		b.heard(looksUp(1), picks(3))
		b.tell(&messages.GetJobOutcomeResult{Id: 1, Status: int32(job.Success)})
		require.Empty(t, b.begun())
		b.left(3)
		require.Equal(t, []uint64{8}, b.begun())
	})
}

func TestANewIncarnationAsksEverybody(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.populate(nil, nil)
		kittest.Expect[*messages.PublishLocks](b.locks)
		b.Restart(b.scheduler)
		b.locks.Quiet()
		b.populate(nil, plain(1))
		kittest.Expect[*messages.PublishLocks](b.locks)
		b.heard(picks(1))
	})
}

// Without a configuration nobody knows how many may run.
func TestTheSchedulerWaitsForTheConfiguration(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.asked()
		b.cluster.Answer(func(any) any { return nil })
		b.Restart(b.scheduler)
		b.tell(&messages.QueueStarted{Incarnation: 2})
		b.heard()
		b.cluster.Ask(b.scheduler, &messages.ConfigPublished{Content: []byte("{")})
		b.heard()
		require.Len(t, b.Logged("configuration cannot be used; the scheduler keeps the former one"), 1)
		b.reconfigure(2, "")
		b.populate(nil, plain(1, 2, 3))
		require.Equal(t, []int64{1, 2}, b.picked())
	})
}

// Two that were found running have the same place in a limit: one had given it away
// between two opcodes. It waits until the other has ended.
func TestAFoundJobYieldsItsPlaceInAFullLimit(t *testing.T) {
	onBench(t, 5, func(t *testing.T, b *bench) {
		limited := jobtest.Delay(because("rate-limit:1:b"))
		b.populate(all(waiting(1, limited, limited), waiting(2, limited, limited)), nil)
		b.begin(7, 1, 1)
		require.Empty(t, b.begun())
		b.begin(8, 2, 1)
		require.Equal(t, []uint64{8}, b.begun())
		b.ended(2, job.Success)
		require.Equal(t, []uint64{7}, b.begun())
	})
}

// A job that had given its slot back waits for one at the priority that it has now,
// whether that has come before it stands in line or while it does.
func TestAJobThatGoesOnWaitsAtItsNewPriority(t *testing.T) {
	for name, early := range map[string]bool{"before it stands in line": true, "in line": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, 1, func(t *testing.T, b *bench) {
				b.populate(all(waiting(1, jobtest.Delay(), jobtest.Delay())), plain(2))
				b.heard()
				b.change(pausing(1))
				b.begin(7, 1, 1)
				require.Empty(t, b.begun())
				require.Equal(t, []int64{2}, b.picked())
				b.add(urgent(-10, 3, jobtest.Delay()))
				changed := &messages.PriorityChanged{Id: 1, Priority: -20}
				if early {
					b.tell(changed)
				}
				b.change(accepting(1))
				if !early {
					b.tell(changed)
				}
				b.left(2)
				require.Equal(t, []uint64{7}, b.begun())
				require.Empty(t, b.picked())
				b.left(1)
				require.Equal(t, []int64{3}, b.picked())
				b.tell(&messages.PriorityChanged{Id: 99, Priority: 1})
			})
		})
	}
}
