package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// follow subscribes a probe to all jobs.
func (b *bench) follow() *kittest.Probe {
	b.Helper()
	p := b.Probe("follower")
	p.Ask(b.queue, &messages.SubscribeAllJobs{})
	p.Ask(b.queue, &messages.SubscribeAllJobs{}) // a second subscription has no effect
	b.Settle()
	return p
}

// news are the jobs in the messages to a subscriber of all jobs: ids and statuses.
func news(p *kittest.Probe) map[int64]job.Status {
	m := kittest.Expect[*messages.JobStatesChanged](p)
	told := map[int64]job.Status{}
	for _, info := range m.Jobs {
		told[info.Id] = job.Status(info.Status)
	}
	return told
}

func TestFollowersAreToldOfNewJobsTogether(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		p := b.follow()
		b.submit(1, 2)
		b.commit()
		b.submitted(1)
		require.Equal(t, map[int64]job.Status{1: job.Queued, 2: job.Queued}, news(p))
		p.Quiet()
	})
}

func TestFollowersAreToldWhatIsShownAndNotWhatIsSaid(t *testing.T) {
	onReady(t, []*job.Job{running(1), running(2)}, func(t *testing.T, b *bench) {
		p := b.follow()
		b.progress(1)
		require.Equal(t, map[int64]job.Status{1: job.Running}, news(p))
		b.progress(1)
		p.Quiet()
		b.jobs.Ask(b.queue, &messages.JobEnded{Id: 1, Encoded: job.Encode(ended(1))})
		require.Equal(t, map[int64]job.Status{1: job.Success}, news(p))
		p.Quiet()
	})
}

// A hold and its end change why a job waits, which pages show.
func TestFollowersAreToldOfAHold(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		p := b.follow()
		b.orderHold(1, true)
		require.Equal(t, map[int64]job.Status{1: job.Queued}, news(p))
		b.recordWritten("1", heldByRoot)
		b.expectOrder(true, "Job 1 is held")
		b.orderHold(1, true)
		b.recordWritten("1", heldByRoot)
		b.expectOrder(true, "Job 1 is held")
		p.Quiet()
		b.orderHold(1, false)
		p.Quiet()
		b.recordWritten("1", `{}`)
		require.Equal(t, map[int64]job.Status{1: job.Queued}, news(p))
		p.Quiet()
	})
}

func TestFollowersAreToldOfAnArchivedJob(t *testing.T) {
	onReady(t, []*job.Job{ended(1), ended(2)}, func(t *testing.T, b *bench) {
		p := b.follow()
		b.client.Ask(b.queue, &messages.ArchiveJobs{Request: 1, Id: 2})
		b.Settle()
		b.filesDone(b.storeAsked())
		require.Equal(t, []int64{2}, kittest.Expect[*messages.JobStatesChanged](p).Archived)
	})
}

func TestADeadFollowerIsForgotten(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		b.follow().Stop()
		dead := b.DeadLetters()
		b.progress(1)
		require.Equal(t, dead, b.DeadLetters())
	})
}

// A queue that has restarted has no subscribers. It announces itself, so that they
// subscribe again.
func TestARestartedQueueTellsFollowersNothingUnasked(t *testing.T) {
	onReady(t, []*job.Job{running(1)}, func(t *testing.T, b *bench) {
		p := b.follow()
		b.Restart(b.queue)
		b.recover(scanOf(running(1)))
		b.progress(1)
		p.Quiet()
	})
}
