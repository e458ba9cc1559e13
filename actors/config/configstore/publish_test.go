package configstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// A subscriber gets the state of the disk at the start, and each change after it is durable.
func TestSubscribersGetEachDurableConfiguration(t *testing.T) {
	onBench(t, func(b *bench) {
		require.Equal(t, b.name(), kittest.Expect[*configstore.CopyPublished](b.subscriber).Config.Cluster.Value.Name)
		release := b.gate.hold("append " + paths.ConfigJournalPath)
		b.send(b.record())
		b.Settle()
		b.subscriber.Quiet()
		release()
		b.expectAppended()
		require.Equal(t, b.state.Config, kittest.Expect[*configstore.CopyPublished](b.subscriber).Config)
		b.flush()
		b.Settle()
		b.subscriber.Quiet()
		b.subscriber.Ask(b.pid, &configstore.PublishCopy{})
		require.Equal(t, b.state.Config, kittest.Expect[*configstore.CopyPublished](b.subscriber).Config)
	})
}

// The new incarnation reads the files and publishes them again.
func TestSubscribersGetTheConfigurationAfterACrash(t *testing.T) {
	onBench(t, func(b *bench) {
		b.change()
		want := string(b.state.Config.JSON())
		for range 2 {
			kittest.Expect[*configstore.CopyPublished](b.subscriber)
		}
		b.Crash(b.pid)
		b.Advance(time.Second)
		kittest.Expect[*configstore.Started](b.client)
		require.Equal(t, want, string(kittest.Expect[*configstore.CopyPublished](b.subscriber).Config.JSON()))
	})
}

// expectPublished expects the configuration of the client at the subscriber. Later ones may follow.
func (b *bench) expectPublished() {
	b.Helper()
	require.Equal(b, string(b.state.Config.JSON()), string(kittest.Expect[*configstore.CopyPublished](b.subscriber).Config.JSON()))
}

// What the log of the cluster says is published when it is durable, as are the changes of this node.
func TestSubscribersGetWhatTheLogSays(t *testing.T) {
	onBench(t, func(b *bench) {
		b.expectPublished()
		release := b.gate.hold("append config.journal")
		b.send(b.record())
		b.subscriber.Quiet()
		release()
		b.expectAppended()
		b.expectPublished()

		require.Nil(t, b.commit(records(b.record())).Failure)
		b.expectPublished()
		require.Nil(t, b.flush())
		exported := b.export(false)
		b.subscriber.Ask(b.pid, &configstore.PublishCopy{})
		b.expectPublished()
		b.ask(func(n uint64) any {
			return &configstore.Commit{Request: n, Changes: []journal.Change{{Whole: &exported.Contents}}}
		})
		require.Nil(t, kittest.Expect[*configstore.Committed](b.client).Failure)
		b.expectPublished()
		b.reboot(nil)
		b.load()
		b.expectPublished()
	})
}

// A change that cannot be written is not published, and neither is a configuration that cannot be used.
func TestSubscribersDoNotGetWhatIsNotDurable(t *testing.T) {
	onBench(t, func(b *bench) {
		b.expectPublished()
		b.gate.stopAt = len(b.gate.calls) + 1
		b.send(b.record())
		b.subscriber.Quiet()
	})
	d := newDisk(t)
	d.Overwrite(paths.ConfigPath, []byte("{"))
	onDisk(t, d, func(b *bench) {
		require.NotNil(t, b.load().Failure)
		b.subscriber.Quiet()
	})
	onDisk(t, simdisk.New("queue"), func(b *bench) {
		require.True(t, b.load().Missing)
		b.subscriber.Ask(b.pid, &configstore.PublishCopy{})
		b.subscriber.Quiet()
	})
}
