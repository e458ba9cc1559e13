package store_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

func (b *bench) failing() []*messages.FailingWrite {
	b.Helper()
	b.asker.Ask(b.store, &messages.GetFailingWrites{Request: 9})
	return kittest.Expect[*messages.GetFailingWritesResult](b.asker).Writes
}

// Writes that fail are known until one of their kind succeeds: a full disk may take a few bytes at the end of a file. The log
// has one line for the beginning, also if single writes succeed meanwhile.
func TestFailingWritesAreKnown(t *testing.T) {
	const began = "file of the daemon cannot be written; requests that need it fail until it can"
	onBench(t, nil, func(t *testing.T, b *bench) {
		require.Empty(t, b.failing())
		b.disk.Fail("replace", 2)
		since := b.Clock.Now()
		for n := range uint64(2) {
			b.request(n+1, write(true, "queue/job-1", "a"))
			require.NotEmpty(t, failed(b.expectResult(n+1)))
			b.Advance(time.Second)
		}
		b.request(3, &messages.AppendFile{Op: "test", Path: "locks", Content: []byte("x")})
		require.Empty(t, failed(b.expectResult(3)))
		all := b.failing()
		require.Len(t, all, 1)
		require.Contains(t, all[0].Text, "queue/job-1")
		require.Equal(t, since.UnixMicro(), all[0].SinceUs)
		b.request(4, write(true, "queue/job-1", "a"))
		require.Empty(t, failed(b.expectResult(4)))
		require.Empty(t, b.failing())
		b.disk.Fail("replace", 1)
		b.request(5, write(true, "queue/job-1", "a"))
		require.NotEmpty(t, failed(b.expectResult(5)))
		require.Len(t, b.failing(), 1)
		require.Len(t, b.Logged(began), 1)
	})
}

// A write in a directory on another disk says nothing about the one that is full.
func TestAWriteElsewhereDoesNotEndAFailure(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.disk.Fail("replace", 1)
		b.request(1, write(true, "queue/job-1", "a"))
		require.NotEmpty(t, failed(b.expectResult(1)))
		b.request(2, write(true, "durations.json", "{}"))
		require.Empty(t, failed(b.expectResult(2)))
		require.Len(t, b.failing(), 1)
		b.Advance(time.Minute) // nothing was to be written there: the disk may have room again
		b.request(3, write(true, "durations.json", "{}"))
		require.Empty(t, failed(b.expectResult(3)))
		require.Empty(t, b.failing())
	})
}
