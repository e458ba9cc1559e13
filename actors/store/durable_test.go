package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestDurableIsToldAfterTheDirectorySync(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		sync := b.disk.Block("sync")
		b.request(1, write(true, "queue/job-1", "a"))
		sync.Entered()
		require.Equal(t, "a", b.disk.Content("queue/job-1"))
		b.expectQuiet()
		sync.Release()
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, []string{"replace test queue/job-1", "sync sync-dir queue"}, b.disk.Calls(""))
	})
}

func TestWhatNeedNotBeDurableIsNotSynced(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, write(false, "queue/job-1", "a"))
		require.Empty(t, failed(b.expectResult(1)))
		require.Empty(t, b.disk.Calls("sync"))
	})
}

func TestRemovalIsDurable(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "a"}, func(t *testing.T, b *bench) {
		sync := b.disk.Block("sync")
		b.request(1, &messages.RemoveFiles{Op: "test", Paths: []string{"queue/job-1", "queue/job-2"}})
		sync.Entered()
		b.expectQuiet()
		sync.Release()
		require.Empty(t, failed(b.expectResult(1)))
		require.Empty(t, b.disk.Names())
	})
}

func TestEachDirectoryIsSynced(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, write(true, "queue/job-1", "a", "config.data", "b"))
		require.Empty(t, failed(b.expectResult(1)))
		require.ElementsMatch(t, []string{"sync sync-dir queue", "sync sync-dir ."}, b.disk.Calls("sync"))
	})
}

// Requests that come before a sync begins share it. A rename after its beginning waits for
// the next sync.
func TestSyncsAreShared(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		running := b.disk.Block("sync")
		b.request(1, write(true, "queue/job-1", "a"))
		running.Entered()
		for n := uint64(2); n <= 5; n++ {
			b.request(n, write(true, "queue/job-2", "b"))
		}
		b.expectQuiet()

		next := b.disk.Block("sync")
		running.Release()
		next.Entered()
		require.Empty(t, failed(b.expectResult(1)))
		b.expectQuiet()

		next.Release()
		for n := uint64(2); n <= 5; n++ {
			require.Empty(t, failed(b.expectResult(n)))
		}
		require.Len(t, b.disk.Calls("sync"), 2)
	})
}

func TestFailuresAreNamedByPath(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace test queue/job-2", 1)
		b.disk.Fail("replace test queue/job-4", 1)
		b.request(1, write(true, "queue/job-4", "d", "queue/job-1", "a", "queue/job-2", "b", "queue/job-3", "c"))
		a := b.expectResult(1)
		require.Equal(t, []string{"queue/job-2", "queue/job-4"}, failed(a))
		require.Contains(t, a.GetFiles().Failures[0].Failure.Text, "test: replace queue/job-2")
		require.Equal(t, []string{"queue/job-1", "queue/job-3"}, b.disk.Names())
	})
}

// A failed sync fails every file in its directory and is not repeated. The sender must read
// the files to know their content.
func TestAFailedSyncFailsItsFiles(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("sync sync-dir queue", 1)
		b.request(1, write(true, "queue/job-2", "b", "config.data", "c", "queue/job-1", "a"))
		require.Equal(t, []string{"queue/job-1", "queue/job-2"}, failed(b.expectResult(1)))
		require.Len(t, b.disk.Calls("sync sync-dir queue"), 1)
	})
}

func TestNothingIsSyncedForFailures(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace", 1)
		b.request(1, write(true, "queue/job-1", "a"))
		require.Equal(t, []string{"queue/job-1"}, failed(b.expectResult(1)))
		require.Empty(t, b.disk.Calls("sync"))
	})
}

// The commit record is written when all other files are durable, and is durable itself. If
// one of them fails, it is not written.
func TestTheCommitRecordComesLast(t *testing.T) {
	record := func() *messages.WriteFiles {
		m := write(true, "queue/job-1", "one", "queue/job-2", "two")
		m.CommitRecord = &messages.FileWrite{Op: "serial", Path: "queue/serial", Content: []byte("2\n")}
		return m
	}
	onBench(t, map[string]string{"queue/serial": "0\n"}, func(t *testing.T, b *bench) {
		sync := b.disk.Block("sync")
		b.request(1, record())
		sync.Entered()
		b.Settle()
		require.Equal(t, "0\n", b.disk.Content("queue/serial"))
		sync.Release()
		require.Empty(t, failed(b.expectResult(1)))
		require.Equal(t, "2\n", b.disk.Content("queue/serial"))
		require.Len(t, b.disk.Calls("sync"), 2)
	})
	onBench(t, map[string]string{"queue/serial": "0\n"}, func(t *testing.T, b *bench) {
		b.disk.Fail("replace test queue/job-2", 1)
		b.request(1, record())
		require.Equal(t, []string{"queue/job-2"}, failed(b.expectResult(1)))
		require.Equal(t, "0\n", b.disk.Content("queue/serial"))
		b.disk.Fail("replace serial queue/serial", 1)
		b.request(2, record())
		require.Equal(t, []string{"queue/serial"}, failed(b.expectResult(2)))
	})
}

// The log has the content of unsynced files: neither they nor their directory are synced. Others of the same request are.
func TestUnsyncedFilesAreNotSynced(t *testing.T) {
	onBench(t, map[string]string{"queue/job-3": "c", "queue/job-4": "d"}, func(t *testing.T, b *bench) {
		unsynced := write(true, "queue/job-1", "a")
		unsynced.Files[0].Unsynced = true
		b.request(1, unsynced)
		require.Empty(t, failed(b.expectResult(1)))
		b.request(2, &messages.MoveFiles{Files: []*messages.MoveFile{{Op: "test", From: "queue/job-3", To: "queue/archive/0/job-3"}}, Unsynced: true})
		require.Empty(t, failed(b.expectResult(2)))
		b.request(3, &messages.RemoveFiles{Op: "test", Paths: []string{"queue/job-4"}, Unsynced: true})
		require.Empty(t, failed(b.expectResult(3)))
		require.Equal(t, []string{"queue/archive/0/job-3", "queue/job-1"}, b.disk.Names())
		require.Equal(t, []string{"replace-unsynced test queue/job-1"}, b.disk.Calls("replace"))
		require.Empty(t, b.disk.Calls("sync"))

		mixed := write(true, "queue/job-1", "b", "config.data", "e")
		mixed.Files[0].Unsynced = true
		b.request(4, mixed)
		require.Empty(t, failed(b.expectResult(4)))
		require.Equal(t, []string{"sync sync-dir ."}, b.disk.Calls("sync"))
	})
}
