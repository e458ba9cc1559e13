package configstore_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

func TestAChangeIsDurableBeforeItsAnswer(t *testing.T) {
	onBench(t, func(b *bench) {
		release := b.gate.hold("append config.journal")
		b.send(b.record())
		b.client.Quiet()
		release()
		b.expectAppended()
		content, durable := b.surviving(paths.ConfigJournalPath)
		require.True(t, durable)
		require.Len(t, journal.Read(content).Records, 1)
		b.agree()
	})
}

func TestChangesThatArriveTogetherShareASync(t *testing.T) {
	onBench(t, func(b *bench) {
		release := b.gate.hold("append config.journal")
		b.send(b.record())
		b.Settle()
		for range 20 {
			b.send(b.record())
		}
		b.Settle()
		release()
		for range 21 {
			b.expectAppended()
		}
		require.Equal(t, 2, b.gate.count("append config.journal"))
		b.agree()
	})
}

// A record that does not fit is refused, and with it all records of its request.
func TestARecordThatDoesNotFitIsRefused(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		loaded := b.load()
		good := b.record()
		stale := *good
		stale.Number++ // its From is that of good
		b.send(good, &stale)
		require.True(t, kittest.Expect[*configstore.AddRecordsResult](b.client).Refused)
		require.Equal(t, loaded.Number, b.load().Number)
		gap := b.record()
		gap.Number++
		b.send(gap)
		require.True(t, kittest.Expect[*configstore.AddRecordsResult](b.client).Refused)
		b.load()
		b.change()
		b.agree()
	})
}

// A repeated record is done; another one with its number is refused. That also holds after a fold and a restart.
func TestARepeatedRecord(t *testing.T) {
	onBench(t, func(b *bench) {
		first, second := b.record(), b.record()
		other := *first
		other.Method = "updateNode"
		repeat := func() {
			b.send(first, second)
			b.expectAppended()
			b.send(&other)
			require.True(t, kittest.Expect[*configstore.AddRecordsResult](b.client).Refused)
			b.agree()
		}
		b.send(first, second)
		b.expectAppended()
		repeat()
		require.Equal(t, 1, b.gate.count("append config.journal"))
		b.Restart(b.pid)
		repeat()
		require.Nil(t, b.flush())
		repeat()
		b.Restart(b.pid)
		repeat()
	})
}

func TestAFailedAppendIsTakenBackBeforeItsAnswer(t *testing.T) {
	for _, when := range []simdisk.FaultWhen{simdisk.BeforeEffect, simdisk.PartEffect, simdisk.AfterEffect} {
		onBench(t, func(b *bench) {
			b.change()
			before := b.state
			b.disk.Fail(simdisk.Fault{Op: "config-journal", Nth: 1, Times: 3, Err: syscall.ENOSPC, When: when})
			b.send(b.record())
			first := b.number
			b.send(b.record()) // it does not wait: nothing of it was written
			refused := kittest.Expect[*configstore.AddRecordsResult](b.client)
			require.NotEqual(t, first, refused.Request)
			require.True(t, refused.Refused || refused.Failure != nil)
			b.client.Quiet() // the journal could not be replaced yet
			require.Nil(t, b.load().Failure)
			b.Advance(100 * time.Millisecond)
			b.Advance(200 * time.Millisecond)
			m := kittest.Expect[*configstore.AddRecordsResult](b.client)
			require.Equal(t, first, m.Request)
			require.ErrorContains(t, m.Failure, "The change cannot be written, so nothing was changed: ")
			require.Equal(t, "ConfigurationError", m.Failure.Class)
			b.state = before
			b.agree()
			b.change()
			b.agree()
		})
	}
}

// A daemon that starts on a full disk cannot replace the journal. It makes durable what it has read, and answers. Changes fail at once, and succeed as soon as
// the disk has room.
func TestAStartOnAFullDisk(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.reboot(func() {
			b.disk.Fail(simdisk.Fault{Op: "config-journal", Nth: 1, Times: 1 << 20, Err: syscall.ENOSPC, When: simdisk.BeforeEffect})
		})
		require.Nil(t, b.load().Failure)
		content, durable := b.surviving(paths.ConfigJournalPath)
		require.True(t, durable)
		require.Len(t, journal.Read(content).Records, 1)
		for range 2 {
			b.send(b.record())
			require.Equal(t, "ConfigurationError", kittest.Expect[*configstore.AddRecordsResult](b.client).Failure.GetClass())
			require.Nil(t, b.load().Failure)
			require.Nil(t, b.check().Failure)
		}
		b.disk.Heal()
		b.change()
		b.agree()
	})
}

// A store that restarts may write an append twice.
func TestTheStoreRestartsDuringAnAppend(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		release := b.gate.hold("append config.journal")
		b.send(b.record())
		b.Settle()
		b.Crash(b.PID("above-store/store"))
		release()
		b.Advance(kittest.Backoff)
		b.expectAppended()
		b.agree()
		require.Equal(t, 3, b.gate.count("append config.journal"), "one of two records twice")
	})
}

func TestARestartInTheMiddle(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		release := b.gate.hold("append config.journal")
		r := b.record()
		b.send(r)
		b.Settle()
		b.Crash(b.pid)
		release()
		b.Advance(kittest.Backoff)
		require.EqualValues(t, 2, kittest.Expect[*configstore.Started](b.client).Incarnation)
		b.client.Unread() // an answer of the former incarnation
		b.send(r)
		b.expectAppended()
		b.agree()
	})
}
