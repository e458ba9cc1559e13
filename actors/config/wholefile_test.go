package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/config/configtest"
	"lockstep/core/paths"
	"lockstep/messages"
)

// onWholeFile runs a test with an actor without a storage.
func onWholeFile(t *testing.T, f func(*testing.T, *bench)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, map[string]string{paths.ConfigPath: string(fresh(t).JSON())})
		b.start()
		b.locked(nil)
		f(t, b)
	})
}

// Without a storage each change replaces config.data before its answer.
func TestAWholeFile(t *testing.T) {
	onWholeFile(t, func(t *testing.T, b *bench) {
		write := b.disk.Block("replace config")
		number := b.send("allocatePort", "[]")
		b.client.Quiet()
		write.Release()
		_, err := b.expect(number)
		require.NoError(t, err)
		require.Equal(t, int64(11000), b.onFile().Cluster.Value.HighestUsedPort)
		require.Equal(t, string(b.onFile().JSON()), string(b.current().JSON()))
		require.Equal(t, "[]", b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`))
		require.Equal(t, "[]", b.call("flushConfig", "[]"))
		require.Contains(t, b.fails("reserveMAC", "["+identity(tool)+`,"aa:00:00:00:00:09"]`), "Duplicate reservation")
	})
}

// After a failed write the content of config.data is in force, whether it is the old or the new one.
func TestAFailedWriteOfTheWholeFile(t *testing.T) {
	for failing, port := range map[string]int64{"replace config": 10999, "sync": 11000} {
		onWholeFile(t, func(t *testing.T, b *bench) {
			b.call("reserveMAC", "["+identity(job12)+`,"aa:00:00:00:00:09"]`)
			b.disk.Fail(failing, 1)
			require.Contains(t, b.fails("allocatePort", "[]"), "the disk says no")
			require.Equal(t, port, b.current().Cluster.Value.HighestUsedPort)
			require.Equal(t, port, b.onFile().Cluster.Value.HighestUsedPort)
			require.Contains(t, b.fails("reserveMAC", "["+identity(tool)+`,"aa:00:00:00:00:09"]`), "Duplicate reservation")
		})
	}
}

// The actor waits until config.data can be used.
func TestAFileThatCannotBeUsed(t *testing.T) {
	for reason, content := range map[string]string{
		"parsing configuration: ":   `{"version":1}`,
		"master node":               string(configtest.Complete(t, []byte(`{"cluster": {"master_node": "gone"}}`)).JSON()),
		"there is no configuration": "",
	} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			files := map[string]string{paths.ConfigPath: content}
			if content == "" {
				files = nil
			}
			b := newBench(t, e, files)
			b.startUnusable()
			b.number++
			b.client.Ask(b.cluster, &messages.PublishConfig{Request: b.number})
			b.client.Quiet()
			require.Contains(t, b.Logged("configuration cannot be loaded; loading it again")[0]["err"], reason)
			require.NoError(t, b.disk.Replace("test", paths.ConfigPath, fresh(t).JSON()))
			b.Advance(time.Second)
			b.expectPublished()
		})
	}
}
