package clusterconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
	"lockstep/core/lock"
)

// A change by a client without the lock of the object is made, counted, and part of the record.
func TestAChangeWithoutItsLock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		b.call("updateInstance", "["+b.instance(b.current(), "post")+"]")
		require.Equal(t, []bool{false}, b.unlocked)
		require.Equal(t, []model.Touched{{Kind: "instances", UUID: "i"}}, b.storage.Last().Unlocked)

		for _, held := range [][]lock.Item{
			{{Lock: lock.Member(lock.Instance, "post"), Mode: lock.Exclusive}}, {{Lock: lock.Group(lock.Instance), Mode: lock.Exclusive}},
			{{Lock: lock.BGL, Mode: lock.Exclusive}},
		} {
			b.held = held
			b.call("setInstanceStatus", `["i","up",true,"admin"]`)
			b.call("setInstanceStatus", `["i","down",true,"admin"]`)
			require.Empty(t, b.storage.Last().Unlocked)
		}
		require.Len(t, b.unlocked, 1)

		b.held = []lock.Item{{Lock: lock.Member(lock.Instance, "post"), Mode: lock.Shared}, {Lock: lock.Member(lock.Instance, "mail"), Mode: lock.Exclusive}}
		b.call("setInstanceStatus", `["i","up",true,"admin"]`)
		require.Len(t, b.unlocked, 2)
		b.call("addTcpUdpPort", "[12000]")
		require.Len(t, b.unlocked, 2, "the cluster has no lock")
	})
}

// With config_lock_check = refuse the call fails, and nothing has changed.
func TestARefusedChangeWithoutItsLock(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench) {
		require.Nil(t, b.expectSet(b.set("config_lock_check", `"refuse"`)))
		before := b.current()
		require.Equal(t, "ConfigurationError: updateInstance changes instances/i without the lock in exclusive mode, and the setting config_lock_check is refuse",
			b.fails("updateInstance", "["+b.instance(before, "post")+"]"))
		require.Equal(t, []bool{true}, b.unlocked)
		require.Equal(t, string(before.JSON()), string(b.current().JSON()))
		b.held = []lock.Item{{Lock: lock.Member(lock.Instance, "mail"), Mode: lock.Exclusive}}
		b.call("updateInstance", "["+b.instance(before, "post")+"]")
	})
}
