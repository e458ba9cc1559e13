package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

func move(id string) *messages.MoveFiles {
	return &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "test", From: "queue/" + id, To: "queue/archive/0/" + id}}}
}

func TestMoveIsDurable(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "a"}, func(t *testing.T, b *bench) {
		there, gone := b.disk.Block("sync sync-dir queue/archive/0"), b.disk.Block("sync sync-dir queue")
		b.request(1, move("job-1"))
		there.Entered()
		gone.Entered()
		there.Release()
		b.expectQuiet()
		gone.Release()
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, []string{"queue/archive/0/job-1"}, b.disk.Names())
	})
}

func TestAMoveThatFailsNamesTheOldPath(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "a"}, func(t *testing.T, b *bench) {
		b.disk.Fail("rename", 1)
		b.request(1, move("job-1"))
		require.Equal(t, []string{"queue/job-1"}, failed(b.expectResult(1)))
		b.request(2, move("job-2"))
		require.Equal(t, []string{"queue/job-2"}, failed(b.expectResult(2)))
	})
}

// A client repeats a move after a crash of the store, although the file was moved.
func TestMoveTwice(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "a"}, func(t *testing.T, b *bench) {
		b.Panics.Arm(kittest.DeliveryKind{Actor: "above-store/store", Message: "*messages.RunDiskTaskResult"}, 1, kittest.Before)
		b.request(1, move("job-1"))
		b.Advance(kittest.Backoff)
		b.epoch = kittest.Expect[*messages.StoreStarted](b.asker).Incarnation
		b.expectQuiet()
		require.Equal(t, "a", b.disk.Content("queue/archive/0/job-1"))
		b.request(1, move("job-1"))
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, "a", b.disk.Content("queue/archive/0/job-1"))
	})
}

func TestList(t *testing.T) {
	onBench(t, map[string]string{"queue/archive/3/job-1": "a"}, func(t *testing.T, b *bench) {
		for dir, want := range map[string][]string{"queue/archive": {"3"}, "queue/archive/3": {"job-1"}, "queue/absent": nil} {
			b.request(1, &messages.ListDir{Op: "test", Dir: dir})
			require.Equal(t, want, b.expectResult(1).GetList().Names)
		}
	})
}
