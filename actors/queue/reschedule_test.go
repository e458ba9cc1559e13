package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

// at is the time of these tests, 2024-01-01, and a duration, in microseconds.
func at(d time.Duration) int64 { return 1704067200000000 + d.Microseconds() }

func (b *bench) reschedule(id, at int64) {
	b.Helper()
	b.client.Ask(b.queue, &messages.OrderJob{Request: 7, Id: id, Kind: messages.OrderJob_RESCHEDULE, AtUs: at, By: "uid=0(root), pid=4711"})
	b.Settle()
}

func (b *bench) notDue() int64 {
	b.client.Ask(b.queue, &messages.GetQueueStatus{Request: 8})
	b.Settle()
	return kittest.Expect[*messages.GetQueueStatusResult](b.client).NotDue
}

// The scheduler does not have a job while its time is written. The answer follows the write, and the scheduler gets the job with its time.
func TestReschedule(t *testing.T) {
	onReady(t, []*job.Job{newJob(1), running(2), ended(3)}, func(t *testing.T, b *bench) {
		b.scheduler.Unread()
		b.reschedule(1, at(time.Hour))
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReleased](b.scheduler).Id)
		b.reschedule(1, 0)
		b.expectOrder(false, "Job 1 is just being changed for somebody else; try again")
		b.recordWritten("1", `{"at":1704070800000000}`)
		require.Equal(t, at(time.Hour), kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].DueUs)
		b.expectOrder(true, "Job 1 starts at 2024-01-01T01:00:00Z")
		require.Equal(t, int64(1), b.notDue())

		// A choice that was on its way is not carried out.
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1})
		b.Settle()
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReleased](b.scheduler).Id)
		require.Equal(t, at(time.Hour), kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].DueUs)

		b.reschedule(1, 0)
		kittest.Expect[*messages.JobReleased](b.scheduler)
		b.recordWritten("1", `{"at":1704067200000000}`)
		require.Equal(t, at(0), kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].DueUs, "its age counts from now")
		b.expectOrder(true, "Job 1 may start now")
		require.Zero(t, b.notDue())

		b.reschedule(2, at(time.Hour))
		b.expectOrder(false, "Job 2 has started, so its time cannot change")
		b.reschedule(3, at(time.Hour))
		b.expectOrder(false, "Job 3 not found in queue")
		b.reschedule(4, at(time.Hour))
		b.expectOrder(false, "Job 4 not found in queue")
	})
}

// A time that could not be written is not in force, and the record is written again.
func TestATimeThatCannotBeWritten(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.scheduler.Unread()
		b.reschedule(1, at(time.Hour))
		kittest.Expect[*messages.JobReleased](b.scheduler)
		b.recordWritten("1", `{"at":1704070800000000}`, "queue/lockstep-1")
		require.Zero(t, kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].DueUs)
		a := kittest.Expect[*messages.OrderJobResult](b.client)
		require.False(t, a.Done)
		b.recordWritten("1", `{"at":0}`)
		require.Zero(t, b.notDue())
	})
}

// The time of a new job is in its record, which is durable before the client has the id. A time that has passed is now.
func TestASubmissionWithTimes(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.scheduler.Unread()
		ops := []*messages.OpDraft{{Input: newJob(1).Ops[0].Input}}
		b.client.Ask(b.queue, &messages.SubmitJobs{Request: 5, Jobs: []*messages.JobDraft{
			{Ops: ops, AtUs: at(time.Hour)}, {Ops: ops, AtUs: 1}, {Ops: ops},
		}})
		b.Settle()
		r := b.storeAsked()
		require.Equal(t, `{"at":1704070800000000}`+"\n", writtenRecords(r)["queue/lockstep-1"])
		require.Equal(t, `{"at":1704067200000000}`+"\n", writtenRecords(r)["queue/lockstep-2"])
		require.NotContains(t, writtenRecords(r), "queue/lockstep-3")
		b.client.Quiet()
		b.filesDone(r)
		require.Len(t, b.submitted(5).Ids, 3)
		var due []int64
		for _, j := range kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs {
			due = append(due, j.DueUs)
		}
		require.Equal(t, []int64{at(time.Hour), at(0), 0}, due)
		require.Equal(t, int64(1), b.notDue())
	})
}
