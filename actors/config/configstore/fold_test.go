package configstore_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/sim/simdisk"
)

const foldWrite = "replace config.data"

func TestAChangeIsFoldedAfter100Milliseconds(t *testing.T) {
	onBench(t, func(b *bench) {
		require.Empty(t, b.content(paths.ConfigJournalPath))
		b.change()
		require.Equal(t, string(initial(t)), b.content(paths.ConfigPath))
		b.Advance(99 * time.Millisecond)
		require.Zero(t, b.gate.count(foldWrite))
		b.Advance(time.Millisecond)
		require.Equal(t, string(b.state.Config.JSON()), b.content(paths.ConfigPath))
		require.Equal(t, string(b.state.Reserved.Encode()), b.content(paths.TempResPath))
		require.Nil(t, b.find(paths.ConfigJournalPath))
		for _, path := range []string{paths.ConfigPath, paths.TempResPath, paths.ConfigExtraPath} {
			_, durable := b.surviving(path)
			require.True(t, durable, path)
		}
		b.Advance(time.Minute)
		require.Equal(t, 1, b.gate.count(foldWrite))
		b.agree()
	})
}

// slowFold makes one change and a fold that takes a time.
func (b *bench) slowFold(d time.Duration) {
	release := b.gate.hold(foldWrite)
	b.change()
	b.Advance(100 * time.Millisecond)
	b.Advance(d)
	release()
	b.Settle()
}

// All folds together take at most a tenth of the time, except if config.data would be too far behind: two folds and the pause between
// them take at most 2.7 s, unless the disk is very slow.
func TestFoldsArePaced(t *testing.T) {
	for duration, pause := range map[time.Duration]time.Duration{
		20 * time.Millisecond:  180 * time.Millisecond,
		100 * time.Millisecond: 900 * time.Millisecond,
		400 * time.Millisecond: 1900 * time.Millisecond,
		5 * time.Second:        2700 * time.Millisecond,
	} {
		onBench(t, func(b *bench) {
			b.slowFold(duration)
			b.change()
			b.Advance(pause - time.Millisecond)
			require.Equal(t, 1, b.gate.count(foldWrite))
			b.Advance(time.Millisecond)
			require.Equal(t, 2, b.gate.count(foldWrite))
			b.agree()
		})
	}
}

// Under a stream of changes each fold takes all changes before it, and the changes do not wait for it.
func TestChangesDuringAFold(t *testing.T) {
	onBench(t, func(b *bench) {
		release := b.gate.hold(foldWrite)
		b.change()
		b.Advance(100 * time.Millisecond)
		folding := b.state
		for range 5 {
			b.change()
		}
		release()
		require.Equal(t, string(folding.Config.JSON()), b.content(paths.ConfigPath))
		require.Len(t, b.onDiskNow().Remaining, 5)
		b.agree()
		b.Advance(time.Second)
		require.Empty(t, b.onDiskNow().Remaining)
		b.agree()
	})
}

func TestFlushWaitsForAFoldOfAllChangesBeforeIt(t *testing.T) {
	onBench(t, func(b *bench) {
		release := b.gate.hold(foldWrite)
		b.change()
		b.Advance(100 * time.Millisecond)
		b.send(b.record())
		flush := b.ask(func(n uint64) any { return &configstore.Flush{Request: n} })
		b.expectAppended()
		b.client.Quiet()
		release()
		require.Equal(t, &configstore.Flushed{Request: flush}, kittest.Expect[*configstore.Flushed](b.client))
		require.Equal(t, string(b.state.Config.JSON()), b.content(paths.ConfigPath))
		require.Nil(t, b.flush(), "a flush without a change writes the file again")
		require.Equal(t, 3, b.gate.count(foldWrite))
	})
}

func TestADrainLeavesNoJournal(t *testing.T) {
	onBench(t, func(b *bench) {
		b.drain()
		b.slowFold(time.Second)
		b.Advance(time.Minute)
		b.change()
		b.send(b.record())
		b.client.Ask(b.pid, &messages.Drain{})
		b.expectAppended()
		kittest.Expect[*messages.DrainResult](b.client)
		require.Nil(t, b.find(paths.ConfigJournalPath))
		require.Equal(t, string(b.state.Config.JSON()), b.content(paths.ConfigPath))
	})
}

// A disk that refuses the fold does not hold up changes. The fold is repeated; Flush and Drain end.
func TestAFoldThatFails(t *testing.T) {
	for _, op := range []string{"config", "config-extra", "config-tempres"} {
		onBench(t, func(b *bench) {
			b.disk.Fail(simdisk.Fault{Op: op, Nth: 2, Times: 4, Err: syscall.EIO}) // the first call of config is a stat
			b.change()
			b.Advance(200 * time.Millisecond)
			f := b.flush()
			if f != nil {
				require.ErrorContains(t, f, "config.data cannot be written: ")
				require.Equal(t, "ConfigurationError", f.Class)
			}
			b.change()
			b.agree()
			b.drain()
			b.disk.Heal()
			require.Nil(t, b.flush())
			require.Empty(t, b.onDiskNow().Remaining)
			b.agree()
		})
	}
}

// While the configuration is encoded, the actor handles requests.
func TestEncodingHoldsUpNothing(t *testing.T) {
	onDisk(t, newDisk(t), func(b *bench) {
		b.encode = make(chan struct{})
		b.reboot(nil)
		b.load()
		b.change()
		b.Advance(100 * time.Millisecond)
		b.change()
		require.EqualValues(t, 2, b.load().Number)
		require.Zero(t, b.gate.count(foldWrite))
		close(b.encode)
		b.Settle()
		require.Equal(t, 1, b.gate.count(foldWrite))
		b.agree()
	})
}
