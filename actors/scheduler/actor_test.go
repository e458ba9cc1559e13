package scheduler_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job/jobtest"
	"lockstep/messages"
)

func TestSlotsAreRespected(t *testing.T) {
	onBench(t, 3, func(t *testing.T, b *bench) {
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: plain(4, 5, 6, 7), Active: plain(1)})
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
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: plain(4), Active: plain(1, 2, 3)})
		b.left(1, 2)
		require.Empty(t, b.picked())
		b.left(3)
		require.Equal(t, []int64{4}, b.picked())
	})
}

func TestOrder(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		jobs := []*messages.UnfinishedJob{urgent(10, 1, jobtest.Delay()), urgent(0, 2, jobtest.Delay()), urgent(-10, 3, jobtest.Delay()), urgent(0, 4, jobtest.Delay())}
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: jobs})
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
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: plain(2, 3), Active: plain(1)})
		b.left(2, 9, 1)
		require.Equal(t, []int64{3}, b.picked())
	})
}

// A job that comes back gives its slot up and waits in line.
func TestAJobThatComesBack(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: plain(1, 2)})
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
		b.tell(&messages.ListUnfinishedJobsResult{Request: epoch, Pending: plain(2)})
		require.Equal(t, []int64{2}, b.picked())
	})
}

// The answer to an earlier question is not taken for that to a later one: what
// changed in between would be missed.
func TestAPopulationOfAnotherEpochIsIgnored(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		first := b.asked()
		b.tell(&messages.QueueStarted{Incarnation: 2})
		second := b.asked()
		require.Greater(t, second, first)
		b.tell(&messages.ListUnfinishedJobsResult{Request: first, Pending: plain(1)})
		require.Empty(t, b.picked())
		b.tell(&messages.ListUnfinishedJobsResult{Request: second, Pending: plain(2)})
		require.Equal(t, []int64{2}, b.picked())
		b.tell(&messages.ListUnfinishedJobsResult{Request: first, Pending: plain(3)})
		require.Empty(t, b.picked())
	})
}

// A queue that has restarted is asked again, and what was known is forgotten.
func TestQueueStarted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.tell(&messages.ListUnfinishedJobsResult{Request: b.asked(), Pending: plain(1, 2)})
		require.Equal(t, []int64{1}, b.picked())
		b.tell(&messages.QueueStarted{Incarnation: 2})
		epoch := b.asked()
		b.left(1)
		require.Empty(t, b.picked())
		b.tell(&messages.ListUnfinishedJobsResult{Request: epoch, Active: plain(1), Pending: plain(2)})
		require.Empty(t, b.picked())
		b.left(1)
		require.Equal(t, []int64{2}, b.picked())
	})
}

func TestANewIncarnationAsksAgain(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		former := b.asked()
		b.tell(&messages.ListUnfinishedJobsResult{Request: former, Pending: plain(1, 2)})
		require.Equal(t, []int64{1}, b.picked())
		b.Crash(b.scheduler)
		b.left(1) // waits in the mailbox, and is in the population
		b.Advance(kittest.Backoff)
		epoch := b.asked()
		require.Greater(t, epoch, former)
		b.tell(&messages.ListUnfinishedJobsResult{Request: former, Pending: plain(7)})
		require.Empty(t, b.picked())
		b.tell(&messages.ListUnfinishedJobsResult{Request: epoch, Pending: plain(2)})
		require.Equal(t, []int64{2}, b.picked())
	})
}
