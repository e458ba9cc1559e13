package configstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/config/ssconf"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// expectTold expects the configuration of the client at the writer of the ssconf files. Later ones may follow.
func (b *bench) expectTold() {
	b.Helper()
	require.Equal(b, string(b.state.Config.JSON()), string(kittest.Expect[*ssconf.Published](b.ssconf).Config.JSON()))
}

// The writer of the ssconf files is told each configuration when it is durable: the one that the files have at the start, changes
// of this node, and what the log of the cluster says.
func TestSsconfIsTold(t *testing.T) {
	onBench(t, func(b *bench) {
		b.expectTold()
		release := b.gate.hold("append config.journal")
		b.send(b.record())
		b.ssconf.Quiet()
		release()
		b.expectAppended()
		b.expectTold()

		require.Nil(t, b.commit(records(b.record())).Failure)
		b.expectTold()
		require.Nil(t, b.flush())
		exported := b.export(false)
		b.ssconf.Ask(b.pid, &ssconf.Publish{})
		b.expectTold()
		b.ask(func(n uint64) any {
			return &configstore.Commit{Request: n, Changes: []journal.Change{{Whole: &exported.Contents}}}
		})
		require.Nil(t, kittest.Expect[*configstore.Committed](b.client).Failure)
		b.expectTold()
		b.reboot(nil)
		b.load()
		b.expectTold()
	})
}

// A change that cannot be written is not told, and neither is a configuration that cannot be used.
func TestSsconfIsNotTold(t *testing.T) {
	onBench(t, func(b *bench) {
		b.expectTold()
		b.gate.stopAt = len(b.gate.calls) + 1
		b.send(b.record())
		b.ssconf.Quiet()
	})
	d := newDisk(t)
	d.Overwrite(paths.ConfigPath, []byte("{"))
	onDisk(t, d, func(b *bench) {
		require.NotNil(t, b.load().Failure)
		b.ssconf.Quiet()
	})
	onDisk(t, simdisk.New("queue"), func(b *bench) {
		require.True(t, b.load().Missing)
		b.ssconf.Ask(b.pid, &ssconf.Publish{})
		b.ssconf.Quiet()
	})
}
