package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

func TestWhoAsksIsToldTheEpoch(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		other := b.Probe("other")
		other.Ask(b.store, &messages.AnnounceStore{})
		require.Equal(t, b.epoch, kittest.Expect[*messages.StoreStarted](other).Incarnation)
		b.Restart(b.store)
		require.Equal(t, b.epoch+1, kittest.Expect[*messages.StoreStarted](b.asker).Incarnation)
		other.Quiet() // only clients get StoreStarted without a request
	})
}

func TestRequestsOfAnotherEpochAreDropped(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		for _, epoch := range []uint64{0, b.epoch - 1, b.epoch + 1} {
			b.asker.Ask(b.store, newRequest(epoch, 1, write(true, "queue/job-1", "a")))
		}
		b.expectQuiet()
		require.Empty(t, b.disk.Calls(""))
	})
}

func TestARequestInTheMailboxOfACrashedStoreIsDropped(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.Crash(b.store)
		b.request(1, write(true, "queue/job-1", "a"))
		b.Advance(kittest.Backoff)
		require.Equal(t, b.epoch+1, kittest.Expect[*messages.StoreStarted](b.asker).Incarnation)
		b.expectQuiet()
		require.Empty(t, b.disk.Calls(""))
	})
}

// A restarted store waits for the calls of former writers, so that a late write cannot
// overtake a new one. Their results are ignored.
func TestAnswersOfFormerWritersAreIgnored(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		stuck := b.disk.Block("replace test queue/job-1")
		b.request(1, write(true, "queue/job-1", "former"))
		stuck.Entered()
		b.Restart(b.store)
		b.expectQuiet() // the writer has not returned yet

		stuck.Release()
		b.epoch = kittest.Expect[*messages.StoreStarted](b.asker).Incarnation
		b.expectQuiet() // the former request is not answered
		require.Equal(t, "former", b.disk.Content("queue/job-1"))
		b.request(1, write(true, "queue/job-1", "new"))
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, "new", b.disk.Content("queue/job-1"))
	})
}

// A late RunDiskTaskResult with the number of a current task is ignored.
func TestStaleWriterDone(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.Restart(b.store)
		b.epoch = kittest.Expect[*messages.StoreStarted](b.asker).Incarnation
		stuck := b.disk.Block("replace test queue/job-1")
		b.request(1, write(false, "queue/job-1", "a"))
		stuck.Entered()
		for task := range uint64(4) {
			b.Send(b.store, &messages.RunDiskTaskResult{Incarnation: b.epoch - 1, Task: task})
		}
		b.expectQuiet()
		stuck.Release()
		require.Empty(t, failed(b.expectResult(1)))
	})
}

// A panic of a writer restarts the store, because the content of the disk is unknown.
func TestAWritersPanicIsTheStores(t *testing.T) {
	for _, when := range []kittest.When{kittest.Before, kittest.After} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			b.Panics.Arm(kittest.DeliveryKind{Actor: "above-store/store/writer", Message: "*messages.RunDiskTask"}, 1, when)
			b.request(1, write(true, "queue/job-1", "a"))
			b.Advance(kittest.Backoff)
			require.True(t, b.Panics.Fired())
			require.Equal(t, b.epoch+1, kittest.Expect[*messages.StoreStarted](b.asker).Incarnation)
			b.epoch++
			b.request(1, write(true, "queue/job-1", "b"))
			require.Empty(t, failed(b.expectResult(1)))
			require.Equal(t, "b", b.disk.Content("queue/job-1"))
		})
	}
}

func TestDrain(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.asker.Ask(b.store, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](b.asker) // no request is open

		sync := b.disk.Block("sync")
		b.request(1, write(true, "queue/job-1", "a"))
		sync.Entered()
		b.asker.Ask(b.store, &messages.Drain{})
		b.expectQuiet()
		sync.Release()
		require.Empty(t, failed(b.expectResult(1)))
		kittest.Expect[*messages.DrainResult](b.asker)
		b.expectQuiet()
	})
}
