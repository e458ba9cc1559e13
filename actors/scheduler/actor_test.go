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
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: plainJobs(4, 5, 6, 7), Active: plainJobs(1)})
		require.Equal(t, []int64{4, 5}, b.takePicked())
		b.enqueue(8)
		require.Empty(t, b.takePicked())
		b.sendReleased(4)
		require.Equal(t, []int64{6}, b.takePicked())
		b.sendReleased(1, 5)
		require.Equal(t, []int64{7, 8}, b.takePicked())
		b.sendReleased(6, 7, 8)
		require.Empty(t, b.takePicked())
		b.enqueue(9)
		require.Equal(t, []int64{9}, b.takePicked())
	})
}

func TestMoreMayRunThanThereAreSlots(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: plainJobs(4), Active: plainJobs(1, 2, 3)})
		b.sendReleased(1, 2)
		require.Empty(t, b.takePicked())
		b.sendReleased(3)
		require.Equal(t, []int64{4}, b.takePicked())
	})
}

func TestOrder(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		jobs := []*messages.UnfinishedJob{withPriority(10, 1, jobtest.Delay()), withPriority(0, 2, jobtest.Delay()), withPriority(-10, 3, jobtest.Delay()), withPriority(0, 4, jobtest.Delay())}
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: jobs})
		var order []int64
		for range jobs {
			next := b.takePicked()
			order = append(order, next...)
			b.sendReleased(next...)
		}
		require.Equal(t, []int64{3, 2, 4, 1}, order)
	})
}

func TestAPendingJobThatLeavesIsNotPicked(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: plainJobs(2, 3), Active: plainJobs(1)})
		b.sendReleased(2, 9, 1)
		require.Equal(t, []int64{3}, b.takePicked())
	})
}

// A job that is enqueued again loses its slot and its place.
func TestAJobThatComesBack(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: plainJobs(1, 2)})
		require.Equal(t, []int64{1}, b.takePicked())
		b.sendReleased(1)
		b.enqueue(1)
		require.Equal(t, []int64{2}, b.takePicked())
		b.sendReleased(2)
		require.Equal(t, []int64{1}, b.takePicked())
	})
}

// Changes that come before ListUnfinishedJobsResult are in that result.
func TestNothingIsPickedBeforeThePopulationIsKnown(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		epoch := b.expectJobsRequest()
		b.enqueue(1, 2)
		b.sendReleased(1)
		require.Empty(t, b.takePicked())
		b.send(&messages.ListUnfinishedJobsResult{Request: epoch, Pending: plainJobs(2)})
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

// An answer to an earlier request is ignored, because it may lack changes.
func TestAPopulationOfAnotherEpochIsIgnored(t *testing.T) {
	onBench(t, 2, func(t *testing.T, b *bench) {
		first := b.expectJobsRequest()
		b.send(&messages.QueueStarted{Incarnation: 2})
		second := b.expectJobsRequest()
		require.Greater(t, second, first)
		b.send(&messages.ListUnfinishedJobsResult{Request: first, Pending: plainJobs(1)})
		require.Empty(t, b.takePicked())
		b.send(&messages.ListUnfinishedJobsResult{Request: second, Pending: plainJobs(2)})
		require.Equal(t, []int64{2}, b.takePicked())
		b.send(&messages.ListUnfinishedJobsResult{Request: first, Pending: plainJobs(3)})
		require.Empty(t, b.takePicked())
	})
}

// A restarted queue is asked again, and everything known of jobs is dropped.
func TestQueueStarted(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		b.send(&messages.ListUnfinishedJobsResult{Request: b.expectJobsRequest(), Pending: plainJobs(1, 2)})
		require.Equal(t, []int64{1}, b.takePicked())
		b.send(&messages.QueueStarted{Incarnation: 2})
		epoch := b.expectJobsRequest()
		b.sendReleased(1)
		require.Empty(t, b.takePicked())
		b.send(&messages.ListUnfinishedJobsResult{Request: epoch, Active: plainJobs(1), Pending: plainJobs(2)})
		require.Empty(t, b.takePicked())
		b.sendReleased(1)
		require.Equal(t, []int64{2}, b.takePicked())
	})
}

func TestANewIncarnationAsksAgain(t *testing.T) {
	onBench(t, 1, func(t *testing.T, b *bench) {
		former := b.expectJobsRequest()
		b.send(&messages.ListUnfinishedJobsResult{Request: former, Pending: plainJobs(1, 2)})
		require.Equal(t, []int64{1}, b.takePicked())
		b.Crash(b.scheduler)
		b.sendReleased(1) // waits in the mailbox, and is in the result
		b.Advance(kittest.Backoff)
		epoch := b.expectJobsRequest()
		require.Greater(t, epoch, former)
		b.send(&messages.ListUnfinishedJobsResult{Request: former, Pending: plainJobs(7)})
		require.Empty(t, b.takePicked())
		b.send(&messages.ListUnfinishedJobsResult{Request: epoch, Pending: plainJobs(2)})
		require.Equal(t, []int64{2}, b.takePicked())
	})
}
