package queue_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

func (b *bench) drain() *kittest.Probe {
	p := b.Probe("supervisor")
	p.Ask(b.queue, &messages.Drain{})
	b.Settle()
	return p
}

func TestDrainOfAnIdleQueue(t *testing.T) {
	onReady(t, []*job.Job{newJob(1)}, func(t *testing.T, b *bench) {
		supervisor := b.drain()
		kittest.Expect[*messages.DrainResult](supervisor)
		b.submit(1, 1)
		require.Equal(t, "The daemon is stopping; submit again when it is back", b.submitted(1).Failure.Text)
		b.scheduler.Ask(b.queue, &messages.PickJob{Id: 1}) // no job is started
		b.jobs.Quiet()
		require.False(t, b.rowOf(1).Unknown) // but questions are answered
		supervisor.Quiet()
	})
}

// Drain may be asked twice; each request is answered.
func TestDrainTwice(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		supervisor := b.drain()
		kittest.Expect[*messages.DrainResult](supervisor)
		supervisor.Ask(b.queue, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](supervisor)
		supervisor.Quiet()
	})
}

func TestDrainFinishesWhatHasBegun(t *testing.T) {
	onReady(t, nil, func(t *testing.T, b *bench) {
		b.submit(1, 1)
		b.submit(2, 1)
		supervisor := b.drain()
		b.submit(3, 1)
		require.NotNil(t, b.submitted(3).Failure)
		supervisor.Quiet()
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		supervisor.Quiet()
		b.commit()
		require.Equal(t, []int64{2}, b.submitted(2).Ids)
		kittest.Expect[*messages.DrainResult](supervisor)
		supervisor.Quiet()
	})
}

func TestDrainDuringRecovery(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.submit(1, 1) // came before: it is accepted
		supervisor := b.drain()
		supervisor.Quiet()
		b.recover(scanOf())
		b.commit()
		require.Equal(t, []int64{1}, b.submitted(1).Ids)
		kittest.Expect[*messages.DrainResult](supervisor)
	})
}

func TestDrainWaitsForTheQuarantine(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.recover(&messages.ScanQueueResult{Serial: []byte("1\n"), Jobs: []*messages.ScannedJob{{Id: 1}}})
		moving := b.storeAsked()
		supervisor := b.drain()
		supervisor.Quiet()
		b.storeAnswers(moving, &messages.AccessStoreResult{What: &messages.AccessStoreResult_Quarantine{Quarantine: &messages.QuarantineFileResult{}}})
		kittest.Expect[*messages.DrainResult](supervisor)
	})
}
