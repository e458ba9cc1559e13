package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestQuarantine(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "bad"}, func(t *testing.T, b *bench) {
		sync := b.disk.Block("sync")
		b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
		sync.Entered()
		b.expectQuiet()
		sync.Release()
		require.Equal(t, "queue/quarantine/job-1", b.expectResult(1).GetQuarantine().Path)
		require.Equal(t, []string{"queue/quarantine/job-1"}, b.disk.Names())
		require.Equal(t, []string{"sync sync-dir queue/quarantine", "sync sync-dir queue"}, b.disk.Calls("sync"))
	})
}

func TestQuarantineNeverOverwrites(t *testing.T) {
	files := map[string]string{
		"queue/job-1": "new", "queue/quarantine/job-1": "first", "queue/quarantine/job-1.1": "second",
	}
	onBench(t, files, func(t *testing.T, b *bench) {
		b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
		require.Equal(t, "queue/quarantine/job-1.2", b.expectResult(1).GetQuarantine().Path)
		require.Equal(t, "first", b.disk.Content("queue/quarantine/job-1"))
		require.Equal(t, "second", b.disk.Content("queue/quarantine/job-1.1"))
		require.Equal(t, "new", b.disk.Content("queue/quarantine/job-1.2"))
	})
}

// Two files of one base name get different names in the quarantine.
func TestQuarantineOfTwoFilesOfOneName(t *testing.T) {
	files := map[string]string{"queue/job-1": "live", "queue/archive/0/job-1": "archived"}
	onBench(t, files, func(t *testing.T, b *bench) {
		listing := b.disk.Block("list quarantine")
		b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
		b.request(2, &messages.QuarantineFile{Path: "queue/archive/0/job-1"})
		listing.Entered()
		b.Settle()
		listing.Release()
		b.Settle()
		require.Len(t, b.asker.Unread(), 2)
		var kept []string
		for _, name := range b.disk.Names() {
			kept = append(kept, b.disk.Content(name))
		}
		require.ElementsMatch(t, []string{"live", "archived"}, kept)
	})
}

// A file that is written during a quarantine of its path is not moved.
func TestQuarantineKeepsItsPlaceInTheOrder(t *testing.T) {
	onBench(t, map[string]string{"queue/job-1": "bad"}, func(t *testing.T, b *bench) {
		listing := b.disk.Block("list quarantine")
		b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
		listing.Entered()
		b.request(2, write(true, "queue/job-1", "good"))
		b.Settle()
		listing.Release()
		b.Settle()
		require.Len(t, b.asker.Unread(), 2)
		require.Equal(t, "good", b.disk.Content("queue/job-1"))
		require.Equal(t, "bad", b.disk.Content("queue/quarantine/job-1"))
	})
}

func TestQuarantineFailures(t *testing.T) {
	for _, call := range []string{"list quarantine", "rename quarantine", "sync"} {
		onBench(t, map[string]string{"queue/job-1": "bad"}, func(t *testing.T, b *bench) {
			b.disk.Fail(call, 1)
			b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
			require.Contains(t, b.expectResult(1).GetQuarantine().Failure.GetText(), "the disk says no")
			b.request(2, write(true, "queue/job-1", "good")) // the lane of the path continues
			require.Empty(t, failed(b.expectResult(2)))
		})
	}
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.request(1, &messages.QuarantineFile{Path: "queue/job-1"})
		require.NotNil(t, b.expectResult(1).GetQuarantine().Failure)
	})
}
