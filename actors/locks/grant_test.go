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
		c.gets("cluster/BGL:shared node/a:exclusive")
		require.JSONEq(t, `[["cluster/BGL","shared"],["node/a","exclusive"]]`, c.list())
		require.Equal(t, b.status(), b.onDisk())
		require.Equal(t, []string{"watch /live/job_000001_x 101"}, b.port.since("watch", "forget", "wake"))
		c.free()
		require.Equal(t, "[]", c.result())
		require.Equal(t, "[]", c.list())
		require.Equal(t, "[[],[]]", b.onDisk())
	})
}

// Who has to wait is told of whom, and hears nothing of a grant before the disk
// has it; no more do others hear that they have freed something, or look at it.
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
		require.Equal(t, "[]", holder.result())
		require.JSONEq(t, `["node/[lockset]","node/a"]`, looker.result())

		waiter.update("node/a:exclusive")
		require.JSONEq(t, "["+job(1)+"]", waiter.result())
		b.port.since()
		write = b.disk.Block("append locks")
		holder.free()
		write.Entered()
		b.Settle()
		require.Empty(t, b.port.since("wake"))
		holder.Quiet()
		waiter.call("hasPendingRequest", "["+job(2)+"]")
		waiter.Quiet()
		write.Release()
		require.Equal(t, "[]", holder.result())
		require.Equal(t, "false", waiter.result())
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.since("wake"))
		require.Equal(t, `[["node/a","exclusive"]]`, waiter.list())
	})
}

// What comes while a write is under way goes into the next, all of it.
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
		require.Equal(t, "[]", first.result())
		for _, c := range others {
			c.Quiet()
		}
		second.Release()
		for _, c := range others {
			require.Equal(t, "[]", c.result())
		}
		require.Len(t, b.disk.Calls("append locks"), 2)
		require.Equal(t, 12, lines(b.disk.Content(paths.LocksJournalPath)))
		require.Equal(t, b.status(), b.onDisk())
	})
}

// A stock client is woken by a signal, one that waits on its connection is not.
func TestWhoIsWoken(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, stock, ours, last := b.caller(job(1)), b.caller(job(2)), b.caller(job(3)), b.caller(job(4))
		holder.gets("node/a:exclusive node/b:exclusive")
		stock.update("node/a:shared")
		stock.result()
		ours.await("node/b:shared", 60)
		last.update("node/a:exclusive")
		last.result()
		b.port.since()
		holder.free()
		require.Equal(t, "[]", holder.result())
		require.True(t, ours.awaited().Granted)
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.since("wake"))
		stock.free()
		stock.result()
		require.Equal(t, []string{"wake /live/job_000004_x 104"}, b.port.since("wake"))
	})
}

// A union does not wait, and says what it has got.
func TestUnions(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c := b.caller(job(1)), b.caller(job(2))
		holder.gets("node/b:exclusive")
		c.call("guardedOpportunisticLockUnion", fmt.Sprintf(`[3,%s,%s]`, c.owner, request("node/a:shared node/b:shared node/c:shared")))
		require.Equal(t, "[]", c.result())
		c.call("guardedOpportunisticLockUnion", fmt.Sprintf(`[2,%s,%s]`, c.owner, request("node/a:shared node/b:shared node/c:shared")))
		require.JSONEq(t, `["node/c","node/a"]`, c.result())
		c.call("opportunisticLockUnion", fmt.Sprintf(`[%s,%s]`, c.owner, request("node/d:shared")))
		require.JSONEq(t, `["node/d"]`, c.result())
		require.Equal(t, b.status(), b.onDisk())
	})
}

// What is there no more cannot be freed, and that costs no write.
func TestWhatChangesNothingIsNotWritten(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.gets("node/a:exclusive")
		c.gets("node/a:exclusive")
		c.call("intersectLocks", fmt.Sprintf(`[%s,["node/a"]]`, c.owner))
		require.Equal(t, "[]", c.result())
		c.free()
		c.result()
		c.free()
		c.result()
		require.Len(t, b.disk.Calls("append locks"), 2)
	})
}

// lockstepPassBGL makes the daemon the holder of the big lock, before all others;
// called again it has been done.
func TestPassBGL(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		destroyer, other := b.caller(job(1)), b.caller(job(2))
		destroyer.call(passBGL, "["+job(1)+"]")
		require.Equal(t, "Cluster destruction requested without owning BGL exclusively", destroyer.failure())
		destroyer.gets("cluster/BGL:shared")
		destroyer.call(passBGL, "["+job(1)+"]")
		require.Equal(t, "Cluster destruction requested without owning BGL exclusively", destroyer.failure())
		destroyer.gets("cluster/BGL:exclusive")
		destroyer.gets("node/a:exclusive")
		other.update("cluster/BGL:shared")
		other.result()
		for range 2 {
			destroyer.call(passBGL, "["+job(1)+"]")
			require.Equal(t, "[]", destroyer.result())
			require.Equal(t, `[["node/a","exclusive"]]`, destroyer.list())
			require.JSONEq(t, `[[["cluster/[lockset]",[]],["cluster/BGL",[[`+self.String()+`,"exclusive"]]],["node/[lockset]",[]],["node/a",[[`+job(1)+`,"exclusive"]]]],
				[[0,`+job(2)+`,[["cluster/BGL","shared"]]]]]`, b.status())
			require.Equal(t, b.status(), b.onDisk())
		}
	})
}

func TestTheLockMonitor(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, looker := b.caller(job(1)), b.caller(named("tool")), b.caller(named("looker"))
		holder.gets("node/n10:exclusive node/n9:shared")
		waiter.update("node/n10:shared")
		waiter.result()
		b.Advance(2 * time.Second)
		looker.call(listRows, "[]")
		require.JSONEq(t, `[{"name":"node/[lockset]","owners":[],"pending":[]},
			{"name":"node/n9","mode":"shared","owners":["1"],"pending":[]},
			{"name":"node/n10","mode":"exclusive","owners":["1"],"pending":[{"mode":"shared","owner":"\"tool\""}]}]`, looker.result())
		looker.call(listWaits, "[]")
		require.JSONEq(t, `[{"owner":`+named("tool")+`,"priority":0,"request":[["node/n10","shared"]],"blockers":[`+job(1)+`],
			"locks":[["node/n10"]],"seconds":2}]`, looker.result())
		require.JSONEq(t, `{"owners":2,"waiting":1,"quarantined":[]}`, toJSON(t, b.managerStatus()))
	})
}

// Functions that nobody has, and those that end at once.
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
		require.Equal(t, "[]", c.result())
		fold.Release()
		kittest.Expect[*messages.DrainResult](supervisor)
		require.Equal(t, `[[[`+job(1)+`,[["node/a","exclusive"]]]],[]]`, b.disk.Content(paths.LocksPath))
		require.Equal(t, 1, lines(b.disk.Content(paths.LocksJournalPath)))
		supervisor.Ask(b.locks, &messages.Drain{}) // whoever is in doubt may ask again
		kittest.Expect[*messages.DrainResult](supervisor)
		supervisor.Quiet()
	})
}

func TestDrainOnABrokenDisk(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, supervisor := b.caller(job(1)), b.Probe("supervisor")
		c.gets("node/a:exclusive")
		b.disk.Fail("replace locks", 1_000)
		supervisor.Ask(b.locks, &messages.Drain{})
		kittest.Expect[*messages.DrainResult](supervisor)
		require.Contains(t, b.onDisk(), "node/a") // in the journal
	})
}
