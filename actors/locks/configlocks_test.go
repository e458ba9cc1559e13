package locks_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/lock"
)

// ownerOf decodes an identity.
func ownerOf(t require.TestingT, identity string) lock.Owner {
	var o lock.Owner
	require.NoError(t, json.Unmarshal([]byte(identity), &o))
	return o
}

// expectHolders expects ConfigLocks with these holders of the configuration lock: pairs of identity and mode.
func (b *bench) expectHolders(want map[string]lock.Mode) {
	b.Helper()
	holders := map[lock.Owner]lock.Mode{}
	for identity, mode := range want {
		holders[ownerOf(b, identity)] = mode
	}
	require.Equal(b, &locks.ConfigLocks{Config: holders}, kittest.Expect[*locks.ConfigLocks](b.config))
}

func TestHoldersOfTheConfigurationLock(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.expectHolders(nil)
		one, two := b.caller(job(1)), b.caller(named("tool"))
		one.takeLocks("node/a:exclusive")
		b.config.Quiet()
		one.takeLocks("cluster/config:shared")
		b.expectHolders(map[string]lock.Mode{job(1): lock.Shared})
		two.takeLocks("cluster/config:shared")
		b.expectHolders(map[string]lock.Mode{job(1): lock.Shared, named("tool"): lock.Shared})
		one.free()
		one.expectValue()
		b.expectHolders(map[string]lock.Mode{named("tool"): lock.Shared})
		two.takeLocks("cluster/config:exclusive")
		b.expectHolders(map[string]lock.Mode{named("tool"): lock.Exclusive})
		one.update("cluster/config:exclusive")
		require.NotEqual(t, "[]", one.expectValue())
		b.config.Quiet()
		two.free()
		two.expectValue()
		b.expectHolders(map[string]lock.Mode{job(1): lock.Exclusive})

		b.Send(b.locks, &locks.PublishConfigLocks{})
		b.expectHolders(map[string]lock.Mode{job(1): lock.Exclusive})
		b.crash()
		b.expectHolders(map[string]lock.Mode{job(1): lock.Exclusive})
	})
}

func TestTheExclusiveHolderOfTheBigLock(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.expectHolders(nil)
		one := b.caller(job(1))
		one.takeLocks("cluster/BGL:shared")
		b.config.Quiet()
		one.takeLocks("cluster/BGL:exclusive")
		require.Equal(t, ownerOf(t, job(1)), kittest.Expect[*locks.ConfigLocks](b.config).BGL)
		one.call(passBGL, "["+job(1)+"]")
		one.expectValue()
		b.Settle()
		told := b.config.Unread()
		require.Equal(t, self, told[len(told)-1].(*locks.ConfigLocks).BGL)
	})
}

// The holders are known before the client has its answer, and a change that cannot be written is taken back.
func TestHoldersAreToldFirst(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.expectHolders(nil)
		one := b.caller(job(1))
		write := b.disk.Block("append locks")
		one.update("cluster/config:exclusive")
		b.expectHolders(map[string]lock.Mode{job(1): lock.Exclusive})
		one.Quiet()
		write.Release()
		require.Equal(t, "[]", one.expectValue())

		b.disk.Fail("append locks", 1)
		one.free()
		b.expectHolders(nil)
		require.Contains(t, one.expectFailure(), "cannot be written")
		b.Advance(kittest.Backoff)
		b.expectHolders(map[string]lock.Mode{job(1): lock.Exclusive})
	})
}
