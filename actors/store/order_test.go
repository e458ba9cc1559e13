package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestRequestsForOnePathAreDoneInOrder(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		first := b.disk.Block("replace test queue/job-1")
		b.request(1, write(false, "queue/job-1", "a"))
		first.Entered()
		b.request(2, write(false, "queue/job-1", "b"))
		b.request(3, &messages.ReadFile{Op: "test", Path: "queue/job-1"})
		b.request(4, &messages.RemoveFiles{Op: "test", Paths: []string{"queue/job-1"}})
		b.request(5, &messages.ReadFile{Op: "test", Path: "queue/job-1"})
		b.expectQuiet()
		first.Release()

		require.Empty(t, failed(b.expectResult(1)))
		require.Empty(t, failed(b.expectResult(2)))
		require.Equal(t, "b", string(b.expectResult(3).GetRead().Content))
		read := b.expectResult(5).GetRead()
		require.True(t, read.Missing)
		require.Nil(t, read.Failure)
		require.Empty(t, failed(b.expectResult(4)))
	})
}

func TestABlockedWriteHoldsUpItsPathOnly(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		stuck := b.disk.Block("replace test queue/job-1")
		b.request(1, write(true, "queue/job-1", "a"))
		stuck.Entered()
		for n := uint64(2); n < 10; n++ {
			b.request(n, write(true, fmt.Sprintf("queue/job-%d", n), "x"))
			require.Empty(t, failed(b.expectResult(n)))
		}
		b.expectQuiet()
		stuck.Release()
		require.Empty(t, failed(b.expectResult(1)))
	})
}

func TestOneRequestWritesSideBySide(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		one, two := b.disk.Block("replace test queue/job-1"), b.disk.Block("replace test queue/job-2")
		b.request(1, write(false, "queue/job-1", "a", "queue/job-2", "b"))
		one.Entered()
		two.Entered()
		two.Release()
		b.expectQuiet()
		one.Release()
		require.Empty(t, failed(b.expectResult(1)))
	})
}

// With more files than writers, all files are written.
func TestWritersAreShared(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		var all []string
		for i := range 10 * writers {
			all = append(all, fmt.Sprintf("queue/job-%d", i), "x")
		}
		b.request(1, write(true, all...))
		require.Empty(t, failed(b.expectResult(1)))
		require.Len(t, b.disk.Names(), 10*writers)
		require.Len(t, b.disk.Calls("sync"), 1)
	})
}

func TestOneFileTwiceInOneRequest(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, write(true, "queue/job-1", "a", "queue/job-1", "b"))
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, "b", b.disk.Content("queue/job-1"))
	})
}

func TestNothingToDoIsAnswered(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, write(true))
		require.Empty(t, failed(b.expectResult(1)))
		b.request(2, &messages.RemoveFiles{Op: "test"})
		require.Empty(t, failed(b.expectResult(2)))
		require.Empty(t, b.disk.Calls(""))
	})
}

func TestRead(t *testing.T) {
	onBench(t, map[string]string{"queue/serial": "7\n"}, func(t *testing.T, b *bench) {
		b.request(1, &messages.ReadFile{Op: "test", Path: "queue/serial"})
		require.Equal(t, "7\n", string(b.expectResult(1).GetRead().Content))
		b.request(2, &messages.ReadFile{Op: "test", Path: "queue/job-1"})
		require.True(t, b.expectResult(2).GetRead().Missing)
		b.disk.Fail("read test", 1)
		b.request(3, &messages.ReadFile{Op: "test", Path: "queue/serial"})
		read := b.expectResult(3).GetRead()
		require.False(t, read.Missing)
		require.Equal(t, messages.ClassGeneric, read.Failure.Class)
		require.Contains(t, read.Failure.Text, "test: read queue/serial")
	})
}
