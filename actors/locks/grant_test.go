package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/paths"
	"lockstep/messages"
)

func TestGrantAndFree(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.takeLocks("cluster/BGL:shared node/a:exclusive")
		require.JSONEq(t, `[["cluster/BGL","shared"],["node/a","exclusive"]]`, c.listOwn())
		require.Equal(t, b.status(), b.onDisk())
		require.Equal(t, []string{"watch /live/job_000001_x 101"}, b.port.takeCalls("watch", "forget", "wake"))
		c.free()
		require.Equal(t, "[]", c.expectValue())
		require.Equal(t, "[]", c.listOwn())
		require.Equal(t, "[[],[]]", b.onDisk())
	})
}

// A waiting owner receives its blockers. The lock manager reports a grant, a release or the
// state of the locks only after the disk has it.
func TestNobodyHearsBeforeItIsWritten(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, looker := b.caller(job(1)), b.caller(job(2)), b.caller(named("looker"))
		write := b.disk.Block("append locks")
		holder.update("node/a:exclusive")
		write.Entered()
		holder.Quiet()
		looker.call("listAllLocks", "[]")
		looker.Quiet()
		write.Release()
		require.Equal(t, "[]", holder.expectValue())
		require.JSONEq(t, `["node/[lockset]","node/a"]`, looker.expectValue())

		waiter.update("node/a:exclusive")
		require.JSONEq(t, "["+job(1)+"]", waiter.expectValue())
		b.port.takeCalls()
		write = b.disk.Block("append locks")
		holder.free()
		write.Entered()
		b.Settle()
		require.Empty(t, b.port.takeCalls("wake"))
		holder.Quiet()
		waiter.call("hasPendingRequest", "["+job(2)+"]")
		waiter.Quiet()
		write.Release()
		require.Equal(t, "[]", holder.expectValue())
		require.Equal(t, "false", waiter.expectValue())
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
		require.Equal(t, `[["node/a","exclusive"]]`, waiter.listOwn())
	})
}

// All changes that come during a write go into the next one.
func TestChangesTravelTogether(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		first := b.caller(job(1))
		write := b.disk.Block("append locks")
		first.update("node/a:exclusive")
		write.Entered()
		var others []*caller
		for id := 2; id < 12; id++ {
			c := b.caller(job(id))
			c.update(fmt.Sprintf("node/%d:exclusive", id))
			others = append(others, c)
		}
		b.Settle()
		second := b.disk.Block("append locks")
		write.Release()
		second.Entered()
		require.Equal(t, "[]", first.expectValue())
		for _, c := range others {
			c.Quiet()
		}
		second.Release()
		for _, c := range others {
			require.Equal(t, "[]", c.expectValue())
		}
		require.Len(t, b.disk.Calls("append locks"), 2)
		require.Equal(t, 12, countLines(b.disk.Content(paths.LocksJournalPath)))
		require.Equal(t, b.status(), b.onDisk())
	})
}

// Ganeti's client is woken by a signal, a client that waits on its connection is not.
func TestWhoIsWoken(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, stock, ours, last := b.caller(job(1)), b.caller(job(2)), b.caller(job(3)), b.caller(job(4))
		holder.takeLocks("node/a:exclusive node/b:exclusive")
		stock.update("node/a:shared")
		stock.expectValue()
		ours.await("node/b:shared", 60)
		last.update("node/a:exclusive")
		last.expectValue()
		b.port.takeCalls()
		holder.free()
		require.Equal(t, "[]", holder.expectValue())
		require.True(t, ours.expectAwaitResult().Granted)
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
		stock.free()
		stock.expectValue()
		require.Equal(t, []string{"wake /live/job_000004_x 104"}, b.port.takeCalls("wake"))
	})
}

// A union does not wait, and its answer has the granted locks.
func TestUnions(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/b:exclusive")
		c.call("guardedOpportunisticLockUnion", fmt.Sprintf(`[3,%s,%s]`, c.owner, request("node/a:shared node/b:shared node/c:shared")))
		require.Equal(t, "[]", c.expectValue())
		c.call("guardedOpportunisticLockUnion", fmt.Sprintf(`[2,%s,%s]`, c.owner, request("node/a:shared node/b:shared node/c:shared")))
		require.JSONEq(t, `["node/c","node/a"]`, c.expectValue())
		c.call("opportunisticLockUnion", fmt.Sprintf(`[%s,%s]`, c.owner, request("node/d:shared")))
		require.JSONEq(t, `["node/d"]`, c.expectValue())
		require.Equal(t, b.status(), b.onDisk())
	})
}

// Freeing what is not held writes nothing.
func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.takeLocks("node/a:exclusive")
		c.takeLocks("node/a:exclusive")
		c.call("intersectLocks", fmt.Sprintf(`[%s,["node/a"]]`, c.owner))
		require.Equal(t, "[]", c.expectValue())
		c.free()
		c.expectValue()
		c.free()
		c.expectValue()
		require.Len(t, b.disk.Calls("append locks"), 2)
	})
}

// PassBGL makes the daemon the holder of the big lock before all others. A repeated call
// succeeds.
func TestPassBGL(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		destroyer, other := b.caller(job(1)), b.caller(job(2))
		destroyer.call(passBGL, "["+job(1)+"]")
		require.Equal(t, "Cluster destruction requested without owning BGL exclusively", destroyer.expectFailure())
		destroyer.takeLocks("cluster/BGL:shared")
		destroyer.call(passBGL, "["+job(1)+"]")
		require.Equal(t, "Cluster destruction requested without owning BGL exclusively", destroyer.expectFailure())
		destroyer.takeLocks("cluster/BGL:exclusive")
		destroyer.takeLocks("node/a:exclusive")
		other.update("cluster/BGL:shared")
		other.expectValue()
		for range 2 {
			destroyer.call(passBGL, "["+job(1)+"]")
			require.Equal(t, "[]", destroyer.expectValue())
			require.Equal(t, `[["node/a","exclusive"]]`, destroyer.listOwn())
			require.JSONEq(t, `[[["cluster/[lockset]",[]],["cluster/BGL",[[`+self.String()+`,"exclusive"]]],["node/[lockset]",[]],["node/a",[[`+job(1)+`,"exclusive"]]]],
				[[0,`+job(2)+`,[["cluster/BGL","shared"]]]]]`, b.status())
			require.Equal(t, b.status(), b.onDisk())
		}
	})
}

func TestTheLockMonitor(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, looker := b.caller(job(1)), b.caller(named("tool")), b.caller(named("looker"))
		holder.takeLocks("node/n10:exclusive node/n9:shared")
		waiter.update("node/n10:shared")
		waiter.expectValue()
		b.Advance(2 * time.Second)
		looker.call(listRows, "[]")
		require.JSONEq(t, `[{"name":"node/[lockset]","owners":[],"pending":[]},
			{"name":"node/n9","mode":"shared","owners":["1"],"pending":[]},
			{"name":"node/n10","mode":"exclusive","owners":["1"],"pending":[{"mode":"shared","owner":"\"tool\""}]}]`, looker.expectValue())
		looker.call(listWaits, "[]")
		require.JSONEq(t, `[{"owner":`+named("tool")+`,"priority":0,"request":[["node/n10","shared"]],"blockers":[`+job(1)+`],
			"locks":[["node/n10"]],"seconds":2}]`, looker.expectValue())
		require.JSONEq(t, `{"owners":2,"waiting":1,"quarantined":[]}`, toJSON(t, b.managerStatus()))
	})
}

// Drain is answered when all changes are on the disk.
func TestDrainWaitsForTheDisk(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, supervisor := b.caller(job(1)), b.Probe("supervisor")
		write := b.disk.Block("append locks")
		c.update("node/a:exclusive")
		write.Entered()
		supervisor.Ask(b.locks, &messages.Drain{})
		supervisor.Quiet()
		fold := b.disk.Block("replace locks " + paths.LocksJournalPath)
		write.Release()
		fold.Entered()
		supervisor.Quiet()
		require.Equal(t, "[]", c.expectValue())
		fold.Release()
		kittest.Expect[*messages.DrainResult](supervisor)
		require.Equal(t, `[[[`+job(1)+`,[["node/a","exclusive"]]]],[]]`, b.disk.Content(paths.LocksPath))
		require.Equal(t, 1, countLines(b.disk.Content(paths.LocksJournalPath)))
		supervisor.Ask(b.locks, &messages.Drain{}) // Drain may be repeated
		kittest.Expect[*messages.DrainResult](supervisor)
		supervisor.Quiet()
	})
}

func TestDrainOnABrokenDisk(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, supervisor := b.caller(job(1)), b.Probe("supervisor")
		c.takeLocks("node/a:exclusive")
		b.disk.Fail("replace locks", 1_000)
		supervisor.Ask(b.locks, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](supervisor)
		require.Contains(t, b.onDisk(), "node/a") // in the journal
	})
}
