package configstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/model"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

func TestNoConfiguration(t *testing.T) {
	onDisk(t, simdisk.New("queue"), func(b *bench) {
		m := b.load()
		require.True(t, m.Missing)
		require.Nil(t, m.State.Config)
		require.Nil(t, b.flush())
		require.Nil(t, b.check().Foreign)
		b.drain()
		require.Equal(t, []string{"queue"}, b.namesIn("."))

		b.overwrite(paths.ConfigPath, initial(t))
		b.ask(func(n uint64) any { return &configstore.Reload{Request: n} })
		require.EqualValues(t, 43, kittest.Expect[*configstore.Loaded](b.client).State.Config.Serial)
		b.load()
		b.change()
		b.agree()
	})
}

// The journal of another boot is replayed; a record that was not written completely is cut with a line in the log.
func TestATornRecordIsCut(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.change()
		b.reboot(func() {
			content := b.content(paths.ConfigJournalPath)
			b.overwrite(paths.ConfigJournalPath, []byte(content+content[:len(content)/3]))
		})
		b.agree()
		require.Len(t, b.Logged("journal of the configuration ends in an incomplete record; it was never answered, and is cut"), 1)
		b.change()
		b.reboot(nil)
		b.agree()
	})
}

// A damaged journal is left as it is. All requests fail with what the operator can do.
func TestADamagedJournal(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		b.change()
		b.change()
		damaged := []byte(b.content(paths.ConfigJournalPath))
		damaged[len(damaged)/2] ^= 1
		b.reboot(func() { b.overwrite(paths.ConfigJournalPath, damaged) })
		m := b.load()
		require.EqualError(t, m.Failure, "The configuration cannot be used: config.journal is damaged after serial number 44: line 2: "+
			"the line is damaged. To go on without the changes after that: lockstep config fold --discard-rest")
		require.Equal(t, m.Failure, b.flush())
		b.send(b.record())
		require.Equal(t, m.Failure, kittest.Expect[*configstore.AddRecordsResult](b.client).Failure)
		require.Equal(t, m.Failure, b.check().Failure)
		require.Equal(t, m.Failure, b.adopt().Failure)
		b.drain()
		require.Equal(t, string(damaged), b.content(paths.ConfigJournalPath))
	})
}

func TestFilesThatCannotBeRead(t *testing.T) {
	onDisk(t, newDisk(t), func(b *bench) {
		b.load()
		b.change()
		b.disk.Fail(simdisk.Fault{Op: "config", Nth: 2, Times: 1, Err: syscall.EIO})
		b.Restart(b.pid)
		m := b.load()
		if m.Failure != nil {
			require.ErrorContains(t, m.Failure, "The configuration cannot be read: ")
		}
		b.Advance(time.Second)
		b.agree()
	})
	for path, content := range map[string]string{paths.ConfigPath: "{}", paths.TempResPath: "{}", paths.ConfigExtraPath: "x"} {
		d := newDisk(t)
		d.Overwrite(path, []byte(content))
		onDisk(t, d, func(b *bench) {
			require.ErrorContains(t, b.load().Failure, path)
			require.Equal(t, content, b.content(path))
		})
	}
}

// A configuration of an earlier lockstep is stored in its complete form by the first change, and not before.
func TestAnIncompleteConfigurationIsFilledAtTheFirstWrite(t *testing.T) {
	files, err := filepath.Glob("../../../core/config/testdata/released/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		t.Run(filepath.Base(name), func(t *testing.T) {
			d := newDisk(t)
			d.Overwrite(paths.ConfigPath, raw)
			onDisk(t, d, func(b *bench) {
				b.load()
				filled := b.state
				require.Equal(t, string(raw), b.content(paths.ConfigPath))
				if filepath.Base(name)[0] == 'l' {
					b.disk.Fail(simdisk.Fault{Op: "config-extra", Nth: 1, Times: 1, Err: syscall.EIO})
					b.send(b.record())
					require.ErrorContains(t, kittest.Expect[*configstore.AddRecordsResult](b.client).Failure, "config.data cannot be written")
					b.load()
					b.Advance(time.Second)
					b.change()
					require.Equal(t, string(filled.Config.JSON()), b.content(paths.ConfigPath))
				} else {
					b.change()
				}
				b.agree()
				b.reboot(nil)
				b.agree()
				require.Nil(t, b.flush())
				b.agree()
			})
		})
	}
}

// The first load takes the state that the start has decoded, while the files have the contents that the start has read.
func TestAPreparedState(t *testing.T) {
	for _, tc := range []struct {
		title  string
		change func(t *testing.T, b *bench) // of the files, after the start has read them
		serial int64                        // of the state then
	}{
		{"same", func(*testing.T, *bench) {}, 44},
		{"config.data", func(t *testing.T, b *bench) {
			content := strings.Replace(string(initial(t)), `"serial_no": 43`, `"serial_no": 91`, 1)
			b.disk.Overwrite(paths.ConfigPath, []byte(content))
		}, 91},
		{"journal", func(_ *testing.T, b *bench) { b.disk.Overwrite(paths.ConfigJournalPath, []byte{}) }, 43},
	} {
		t.Run(tc.title, func(t *testing.T) {
			onBench(t, func(b *bench) {
				b.change()
				b.Settle()
				var err error
				b.prepared, err = configstore.Offline{Files: b.disk}.Prepare()
				require.NoError(t, err)
				folded := b.prepared.Config()
				require.EqualValues(t, 43, folded.Serial)
				require.Equal(t, len(initial(t)), b.prepared.Size())

				b.reboot(func() { tc.change(t, b) })
				b.load()
				require.Equal(t, tc.serial, b.state.Config.Serial)
				uuid, found := model.Nodes.ByName(folded, "node1.gnt.example")
				require.True(t, found)
				before, _ := model.Nodes.Get(folded, uuid)
				now, _ := model.Nodes.Get(b.state.Config, uuid)
				require.Equal(t, tc.title == "same", before == now, "the object that the start has decoded")
				require.Nil(t, b.prepared.Config(), "the actor has the state now")
				b.change()
				b.agree()
				b.reboot(nil)
				b.agree()
			})
		})
	}
}
