package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// The changes of one request are one write. A file that cannot be written matters to its job alone, and no answer precedes the write.
func TestOneOrderToSeveralJobs(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), newJob(2), newJob(3)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.OrderJobs{Request: 7, Ids: []int64{1, 9, 2, 3, 3}, Kind: messages.OrderJob_CANCEL})
		b.Settle()
		write := b.storeAsked()
		require.True(t, write.GetWrite().Durable)
		var paths []string
		for _, f := range write.GetWrite().Files {
			paths = append(paths, f.Path)
		}
		require.Equal(t, []string{"queue/job-1", "queue/job-2", "queue/job-3"}, paths)
		b.client.Quiet()
		b.filesDone(write, "queue/job-2")
		a := kittest.Expect[*messages.OrderJobsResult](b.client)
		require.Equal(t, uint64(7), a.Request)
		var done []bool
		for _, r := range a.Results {
			done = append(done, r.Done)
			require.NotEmpty(t, r.Text)
		}
		require.Equal(t, []bool{true, false, false, true, false}, done)
		require.Equal(t, "Job 9 not found in queue", a.Results[1].Text)
		require.Contains(t, a.Results[4].Text, "is just being changed")
	})
}

// An order about a running job goes to its process. If that does not answer, the others have their answers when the time is up.
func TestOneOrderToSeveralJobsDoesNotWaitForever(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2)}, func(t *testing.T, b *bench) {
		b.client.Ask(b.queue, &messages.OrderJobs{Request: 7, Ids: []int64{1, 2}, Kind: messages.OrderJob_SET_PRIORITY, Priority: 5})
		b.Settle()
		b.filesDone(b.storeAsked())
		b.client.Quiet()
		b.Advance(50 * time.Second)
		b.Settle()
		a := kittest.Expect[*messages.OrderJobsResult](b.client)
		require.True(t, a.Results[0].Done)
		require.False(t, a.Results[1].Done)
		require.Contains(t, a.Results[1].Text, "has not answered in time")
	})
}
