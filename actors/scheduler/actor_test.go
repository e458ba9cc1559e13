package scheduler_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/act/acttest"
	"lockstep/actors/scheduler"
	"lockstep/messages"
)

// bench is a scheduler alone, with a probe in place of the queue.
type bench struct {
	*testing.T
	*acttest.Env
	queue     *acttest.Probe
	scheduler *actor.PID
}

func onBench(t *testing.T, slots int, f func(*testing.T, *bench)) {
	t.Helper()
	acttest.Run(t, func(t *testing.T, e *acttest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue")}
		b.scheduler = e.Start("scheduler", scheduler.Props(scheduler.Config{Env: e.Env, Queue: b.queue.PID, MaxRunning: slots}))
		f(t, b)
	})
}

// asked is the epoch of the scheduler's question for the population.
func (b *bench) asked() uint64 {
	b.Helper()
	return acttest.Expect[*messages.SchedulerStarted](b.queue).Epoch
}

func (b *bench) tell(msg any) { b.queue.Ask(b.scheduler, msg) }

func (b *bench) left(ids ...int64) {
	for _, id := range ids {
		b.tell(&messages.JobLeft{Id: id})
	}
}

// enqueue adds jobs of priority 0.
func (b *bench) enqueue(ids ...int64) { b.tell(&messages.EnqueueJobs{Jobs: pending(ids...)}) }

func pending(ids ...int64) []*messages.PendingJob {
	var jobs []*messages.PendingJob
	for _, id := range ids {
		jobs = append(jobs, &messages.PendingJob{Id: id})
	}
	return jobs
}

// picked are the jobs picked since the last call, in that order.
func (b *bench) picked() []int64 {
	b.Helper()
	var ids []int64
	for _, m := range b.queue.Unread() {
		require.IsType(b, &messages.PickJob{}, m)
		ids = append(ids, m.(*messages.PickJob).Id)
	}
	return ids
}

func TestSlotsAreRespected(t *testing.T) {
	onBench(t, 3, func(t *testing.T, b *bench) {
		b.tell(&messages.Population{Epoch: b.asked(), Pending: pending(4, 5, 6, 7), Running: []int64{1}})
		require.Equal(t, []int64{4, 5}, b.picked())
		b.enqueue(8)
		require.Empty(t, b.picked())
		b.left(4)
		require.Equal(t, []int64{6}, b.picked())
		b.left(1, 5)
		require.Equal(t, []int64{7, 8}, b.picked())
		b.left(6, 7, 8)
		require.Empty(t, b.picked())
		b.enqueue(9)
		require.Equal(t, []int64{9}, b.picked())
	})
}

func TestMoreMayRunThanThereAreSlots(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.Population{Epoch: b.asked(), Pending: pending(4), Running: []int64{1, 2, 3}})
		b.left(1, 2)
		require.Empty(t, b.picked())
		b.left(3)
		require.Equal(t, []int64{4}, b.picked())
	})
}

func TestOrder(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		jobs := pending(1, 2, 3, 4)
		jobs[0].Priority, jobs[2].Priority = 10, -10
		b.tell(&messages.Population{Epoch: b.asked(), Pending: jobs})
		var order []int64
		for range jobs {
			next := b.picked()
			order = append(order, next...)
			b.left(next...)
		}
		require.Equal(t, []int64{3, 2, 4, 1}, order)
	})
}

func TestAPendingJobThatLeavesIsNotPicked(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.Population{Epoch: b.asked(), Pending: pending(2, 3), Running: []int64{1}})
		b.left(2, 9, 1)
		require.Equal(t, []int64{3}, b.picked())
	})
}

// A job that comes back gives its slot up and waits in line.
func TestAJobThatComesBack(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.Population{Epoch: b.asked(), Pending: pending(1, 2)})
		require.Equal(t, []int64{1}, b.picked())
		b.left(1)
		b.enqueue(1)
		require.Equal(t, []int64{2}, b.picked())
		b.left(2)
		require.Equal(t, []int64{1}, b.picked())
	})
}

// Whatever comes before the population is in the population.
func TestNothingIsPickedBeforeThePopulationIsKnown(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		epoch := b.asked()
		b.enqueue(1, 2)
		b.left(1)
		require.Empty(t, b.picked())
		b.tell(&messages.Population{Epoch: epoch, Pending: pending(2)})
		require.Equal(t, []int64{2}, b.picked())
	})
}

// The answer to an earlier question is not taken for that to a later one: what
// changed in between would be missed.
func TestAPopulationOfAnotherEpochIsIgnored(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		first := b.asked()
		b.tell(&messages.QueueStarted{Epoch: 2})
		second := b.asked()
		require.Greater(t, second, first)
		b.tell(&messages.Population{Epoch: first, Pending: pending(1)})
		require.Empty(t, b.picked())
		b.tell(&messages.Population{Epoch: second, Pending: pending(2)})
		require.Equal(t, []int64{2}, b.picked())
		b.tell(&messages.Population{Epoch: first, Pending: pending(3)})
		require.Empty(t, b.picked())
	})
}

// A queue that has restarted is asked again, and what was known is forgotten.
func TestQueueStarted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.Population{Epoch: b.asked(), Pending: pending(1, 2)})
		require.Equal(t, []int64{1}, b.picked())
		b.tell(&messages.QueueStarted{Epoch: 2})
		epoch := b.asked()
		b.left(1)
		require.Empty(t, b.picked())
		b.tell(&messages.Population{Epoch: epoch, Running: []int64{1}, Pending: pending(2)})
		require.Empty(t, b.picked())
		b.left(1)
		require.Equal(t, []int64{2}, b.picked())
	})
}

func TestANewIncarnationAsksAgain(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		former := b.asked()
		b.tell(&messages.Population{Epoch: former, Pending: pending(1, 2)})
		require.Equal(t, []int64{1}, b.picked())
		b.Crash(b.scheduler)
		b.left(1) // waits in the mailbox, and is in the population
		b.Advance(acttest.Backoff)
		epoch := b.asked()
		require.Greater(t, epoch, former)
		b.tell(&messages.Population{Epoch: former, Pending: pending(7)})
		require.Empty(t, b.picked())
		b.tell(&messages.Population{Epoch: epoch, Pending: pending(2)})
		require.Equal(t, []int64{2}, b.picked())
	})
}
