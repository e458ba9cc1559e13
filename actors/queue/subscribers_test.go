package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) watch(p *kittest.Probe, request uint64, id int64) *messages.SubscribeJobResult {
	b.Helper()
	p.Ask(b.queue, &messages.SubscribeJob{Request: request, Id: id})
	m := kittest.Expect[*messages.SubscribeJobResult](p)
	require.Equal(b, request, m.Request)
	return m
}

func (b *bench) progress(id int64) {
	b.jobs.Ask(b.queue, &messages.JobProgressed{Id: id, Encoded: job.Encode(running(id))})
	b.Settle()
}

func TestWatch(t *testing.T) {
	onReady(t, []*job.Job{running(1), running(2)}, func(t *testing.T, b *bench) {
		require.Equal(t, int64(1), b.watch(b.client, 7, 1).Row.Info.Id)
		b.progress(2)
		b.client.Quiet()
		b.progress(1)
		changed := kittest.Expect[*messages.JobChanged](b.client)
		require.Equal(t, int32(job.Running), changed.Info.Status)
		require.Equal(t, job.Encode(running(1)), changed.Encoded)

		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		changed = kittest.Expect[*messages.JobChanged](b.client)
		require.Equal(t, int32(job.Success), changed.Info.Status)
		require.Equal(t, job.Encode(ended(1)), changed.Encoded)
	})
}

func TestAWatcherHasOneJob(t *testing.T) {
	onReady(t, []*job.Job{running(1), running(2)}, func(t *testing.T, b *bench) {
		b.watch(b.client, 1, 1)
		b.watch(b.client, 2, 2)
		b.progress(1)
		b.client.Quiet()
		b.progress(2)
		kittest.Expect[*messages.JobChanged](b.client)
	})
}

func TestWatchTwiceIsToldOnce(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.watch(b.client, 1, 1)
		b.watch(b.client, 2, 1)
		b.progress(1)
		require.Len(t, b.client.Unread(), 1)
	})
}

func TestUnwatch(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		other := b.Probe("other")
		b.watch(b.client, 1, 1)
		b.watch(other, 1, 1)
		b.client.Ask(b.queue, &messages.UnsubscribeJob{Id: 1})
		b.client.Ask(b.queue, &messages.UnsubscribeJob{Id: 1}) // twice is harmless
		b.progress(1)
		b.client.Quiet()
		kittest.Expect[*messages.JobChanged](other)
	})
}

func TestADeadWatcherIsForgotten(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.watch(b.client, 1, 1)
		b.client.Stop()
		dead := b.DeadLetters()
		b.progress(1)
		require.Equal(t, dead, b.DeadLetters())
	})
}

func TestWatchOfWhatDoesNotChange(t *testing.T) {
	onReady(t, []*job.Job{ended(1)}, func(t *testing.T, b *bench) {
		require.Equal(t, int32(job.Success), b.watch(b.client, 1, 1).Row.Info.Status)
		require.True(t, b.watch(b.client, 2, 9).Row.Unknown)
		b.progress(1)
		b.client.Quiet()
	})
}

// A job that returns to the queue looks as before its start, so that its subscriber
// receives no message. The subscription continues.
func TestAWatchSurvivesTheJobsReturn(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.watch(b.client, 1, 1)
		b.picked(1)
		b.jobs.Ask(b.queue, &messages.JobReturned{Id: 1})
		b.picked(1)
		b.progress(1)
		kittest.Expect[*messages.JobChanged](b.client)
		b.client.Quiet()
	})
}
