package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) orderHold(id int64, hold bool) {
	b.Helper()
	kind := messages.OrderJob_RELEASE
	if hold {
		kind = messages.OrderJob_HOLD
	}
	b.client.Ask(b.queue, &messages.OrderJob{Request: 7, Id: id, Kind: kind, By: "uid=0(root), pid=4711"})
	b.Settle()
}

func (b *bench) expectOrder(done bool, text string) {
	b.Helper()
	a := kittest.Expect[*messages.OrderJobResult](b.client)
	require.Equal(b, text, a.Text)
	require.Equal(b, done, a.Done)
}

// written expects the durable write of a record, and carries it out.
func (b *bench) recordWritten(id string, content string, failed ...string) {
	b.Helper()
	r := b.storeAsked()
	require.True(b, r.GetWrite().Durable)
	require.Equal(b, map[string]string{"queue/lockstep-" + id: content + "\n"}, writtenRecords(r))
	b.client.Quiet() // no answer precedes the write
	b.filesDone(r, failed...)
}

const heldByRoot = `{"hold":{"by":"uid=0(root), pid=4711","since":1704067200000000}}`

// A hold is in force before it is written, a release after; both are answered when they are durable.
func TestHoldAndRelease(t *testing.T) {
	for name, c := range map[string]struct {
		job  *job.Job
		held string
	}{"queued": {newJob(1), "Job 1 is held"}, "running": {running(1), "Job 1 is held; opcode 1 has begun"}} {
		t.Run(name, func(t *testing.T) {
			onReady(t, []*job.Job{c.job}, func(t *testing.T, b *bench) {
				b.callOffAtOnce()
				b.scheduler.Unread()
				b.orderHold(1, true)
				hold := kittest.Expect[*messages.HoldChanged](b.scheduler)
				require.True(t, hold.Held)
				require.Equal(t, "uid=0(root), pid=4711", hold.By)
				b.recordWritten("1", heldByRoot)
				b.expectOrder(true, c.held)

				b.orderHold(1, true)
				b.recordWritten("1", heldByRoot)
				b.expectOrder(true, c.held)

				b.orderHold(1, false)
				b.scheduler.Quiet()
				b.orderHold(1, true)
				b.expectOrder(false, "Job 1 is just being changed for somebody else; try again")
				b.recordWritten("1", `{}`)
				require.False(t, kittest.Expect[*messages.HoldChanged](b.scheduler).Held)
				b.expectOrder(true, "Job 1 is released")
			})
		})
	}
}

func TestWhatCannotBeHeldOrReleased(t *testing.T) {
	onReady(t, []*job.Job{ended(1), newJob(2)}, func(t *testing.T, b *bench) {
		b.orderHold(1, true)
		b.expectOrder(false, "Job 1 not found in queue")
		b.orderHold(9, false)
		b.expectOrder(false, "Job 9 not found in queue")
		b.orderHold(2, false)
		b.expectOrder(true, "Job 2 is not held")
		b.store.Quiet()
	})
}

// A held job that the scheduler has chosen does not start.
func TestAHeldJobIsNotStarted(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.orderHold(1, true)
		b.recordWritten("1", heldByRoot)
		b.scheduler.Unread()
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1})
		require.Equal(t, int64(1), kittest.Expect[*messages.JobReleased](b.scheduler).Id)
		require.True(t, kittest.Expect[*messages.EnqueueJobs](b.scheduler).Jobs[0].Held)
		b.jobs.Quiet()
	})
}

// A restarted queue reads holds from the records, and tells the scheduler. A record of an ended job holds nothing.
func TestHoldsSurvive(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(withRecords(scanOf(newJob(1), running(2), ended(3)), map[int64]string{1: heldByRoot, 2: heldByRoot, 3: heldByRoot}))
		b.scheduler.Unread()
		b.scheduler.Ask(b.queue, &messages.ListUnfinishedJobs{Request: 1})
		all := kittest.Expect[*messages.ListUnfinishedJobsResult](b.scheduler)
		require.True(t, all.Pending[0].Held)
		require.Equal(t, "uid=0(root), pid=4711", all.Pending[0].HeldBy)
		require.True(t, all.Active[0].Held)
	})
}

// An order that could not be written is taken back, on the disk too.
func TestAHoldThatCannotBeWritten(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		b.scheduler.Unread()
		b.orderHold(1, true)
		require.True(t, kittest.Expect[*messages.HoldChanged](b.scheduler).Held)
		b.recordWritten("1", heldByRoot, "queue/lockstep-1")
		require.False(t, kittest.Expect[*messages.HoldChanged](b.scheduler).Held)
		require.False(t, kittest.Expect[*messages.OrderJobResult](b.client).Done)
		b.filesDone(b.storeAsked(), "queue/lockstep-1")
		b.orderHold(1, true)
		b.expectOrder(false, "Job 1 is just being changed for somebody else; try again")
		b.Advance(time.Second)
		b.recordWritten("1", `{}`)
		b.orderHold(1, true)
		b.recordWritten("1", heldByRoot2)
		b.expectOrder(true, "Job 1 is held")

		b.scheduler.Unread()
		b.orderHold(1, false)
		b.recordWritten("1", `{}`, "queue/lockstep-1")
		require.False(t, kittest.Expect[*messages.OrderJobResult](b.client).Done)
		b.scheduler.Quiet() // it stays held
		b.recordWritten("1", heldByRoot2)
	})
}

const heldByRoot2 = `{"hold":{"by":"uid=0(root), pid=4711","since":1704067201000000}}`
