package configstore_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// A fold without a daemon leaves the files of an orderly stop.
func TestOfflineFold(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.change()
		b.Settle()
		o := configstore.Offline{Files: b.disk}
		_, err := o.Prepare()
		require.NoError(t, err)
		result, err := o.Fold(false)
		require.NoError(t, err)
		require.Equal(t, configstore.Result{Serial: 45, Records: 2}, result)
		require.Equal(t, string(b.state.Config.JSON()), b.content(paths.ConfigPath))
		require.Nil(t, b.find(paths.ConfigJournalPath))
		result, err = o.Fold(false)
		require.NoError(t, err)
		require.Equal(t, configstore.Result{Serial: 45}, result)
		b.reboot(nil)
		b.agree()
	})
}

// A fold without a daemon can fail at each step and be repeated.
func TestOfflineFoldIsRepeatable(t *testing.T) {
	for nth := range 14 {
		onBench(t, func(b *bench) {
			b.change()
			b.change()
			b.Settle()
			b.disk.Fail(simdisk.Fault{Nth: nth + 1, Times: 1, Err: syscall.EIO})
			o := configstore.Offline{Files: b.disk}
			_, err := o.Fold(false)
			b.disk.Heal()
			if err != nil {
				_, err = o.Fold(false)
			}
			require.NoError(t, err)
			b.requireHistory()
			b.reboot(nil)
			b.agree()
		})
	}
}

// The rest of a damaged journal is discarded only on request, and kept under another name.
func TestOfflineFoldOfADamagedJournal(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		good := b.state
		b.change()
		b.change()
		damaged := []byte(b.content(paths.ConfigJournalPath))
		damaged[len(damaged)/2] ^= 1
		b.overwrite(paths.ConfigJournalPath, damaged)
		o := configstore.Offline{Files: b.disk}
		_, err := o.Prepare()
		require.ErrorContains(t, err, "config.journal is damaged after serial number 44")
		_, err = o.Fold(false)
		require.ErrorAs(t, err, new(*journal.DamageError))
		result, err := o.Fold(true)
		require.NoError(t, err)
		require.Equal(t, configstore.Result{Serial: 44, Records: 1, Aside: "config.journal.unused-1"}, result)
		require.Equal(t, string(damaged), b.content("config.journal.unused-1"))
		b.state = good
		b.reboot(nil)
		b.agree()
	})
}

func TestOfflineFoldOfAForeignFile(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.overwrite(paths.ConfigPath, foreign(t))
		result, err := configstore.Offline{Files: b.disk}.Fold(false)
		require.NoError(t, err)
		require.Equal(t, configstore.Result{Serial: 9, Aside: "config.journal.unused-1"}, result)
		require.Equal(t, string(foreign(t)), b.content(paths.ConfigPath))
		empty, err := configstore.Offline{Files: simdisk.New("queue")}.Fold(false)
		require.NoError(t, err)
		require.Zero(t, empty)
	})
}
