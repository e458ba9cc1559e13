package configstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/configstore"
	"lockstep/actors/kittest"
	"lockstep/core/paths"
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

// A change that could not be written is not published.
func TestSubscribersDoNotGetAFailedChange(t *testing.T) {
	onBench(t, func(b *bench) {
		kittest.Expect[*configstore.CopyPublished](b.subscriber)
		b.gate.mu.Lock()
		b.gate.stopAt = len(b.gate.calls) + 1
		b.gate.mu.Unlock()
		b.send(b.record())
		b.Settle()
		b.subscriber.Quiet()
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
