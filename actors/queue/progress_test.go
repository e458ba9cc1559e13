package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func said(text string, at int64) *messages.CommandProgress {
	return &messages.CommandProgress{Percent: 40, Text: text, SinceUs: 5, UpdatedUs: at}
}

// The progress of a job's command is listed, and told to those who hear of that. A report of the file without it ends it, and so does
// the end of the job.
func TestTheProgressOfACommand(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), newJob(2)}, func(t *testing.T, b *bench) {
		b.picked(1)
		b.progress(1)
		b.client.Ask(b.queue, &messages.SubscribeAllJobs{Progress: true})
		other := b.Probe("other")
		other.Ask(b.queue, &messages.SubscribeAllJobs{})
		news := func() *messages.JobInfo {
			m := kittest.Expect[*messages.JobStatesChanged](b.client)
			require.Len(t, m.Jobs, 1)
			b.client.Quiet()
			return m.Jobs[0]
		}
		b.progress(1)
		before := news()
		kittest.Expect[*messages.JobStatesChanged](other)
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Progress: said("copying", 7)})
		changed := news()
		require.EqualExportedValues(t, said("copying", 7), changed.Progress)
		require.EqualExportedValues(t, changed, b.rowOf(1).Info)
		require.Nil(t, before.Progress, "what was sent does not change")
		require.Equal(t, before.Encoded, changed.Encoded)
		require.Nil(t, b.rowOf(2).Info.Progress)

		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(running(1)), Progress: said("copying", 7)})
		b.client.Quiet()
		require.EqualExportedValues(t, said("copying", 7), b.rowOf(1).Info.Progress)
		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Encoded: job.Encode(running(1))})
		require.Nil(t, news().Progress)

		b.jobs.Ask(b.queue, &messages.JobProgressed{Id: 1, Progress: said("ending", 8)})
		require.NotNil(t, news().Progress)
		other.Quiet() // its work grows with the queue
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		require.Nil(t, news().Progress)
		for _, id := range []int64{1, 2, 3} { // ended, pending, unknown
			b.jobs.Ask(b.queue, &messages.JobProgressed{Id: id, Progress: said("late", 9)})
			require.Nil(t, b.rowOf(id).Info.GetProgress())
		}
		b.client.Quiet()
	})
}
