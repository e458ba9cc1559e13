package locks_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

func (b *bench) sendOwnerDied(livelock string) {
	b.Send(b.locks, &messages.OwnerDied{Livelock: livelock})
	b.Settle()
}

// The locks of a dead owner are freed, and then its livelock is removed.
func TestADeadNamedOwner(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		tool, waiter := b.caller(named("tool")), b.caller(job(2))
		tool.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Settle()
		b.port.takeCalls()
		write := b.disk.Block("append locks")
		b.sendOwnerDied("/live/tool")
		write.Entered()
		require.Equal(t, []string{"forget /live/tool"}, b.port.takeCalls("forget", "remove"))
		waiter.Quiet()
		write.Release()
		require.True(t, waiter.expectAwaitResult().Granted)
		require.Equal(t, []string{"remove /live/tool"}, b.port.takeCalls("forget", "remove"))
		require.Equal(t, b.status(), b.onDisk())
		b.queue.Quiet()
	})
}

// The livelock stays if the release could not be written.
func TestADeadOwnerAndAWriteError(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		tool := b.caller(named("tool"))
		tool.takeLocks("node/a:exclusive")
		b.disk.Fail("append locks", 1)
		b.sendOwnerDied("/live/tool")
		require.Empty(t, b.port.takeCalls("remove"))
		require.Contains(t, b.onDisk(), "tool")
	})
}

// An owner that only waits is treated like one that holds locks. Several owners may share a
// livelock.
func TestADeadOwnerThatWaits(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder := b.caller(job(1))
		holder.takeLocks("node/a:exclusive")
		for _, name := range []string{`["one","/live/x",7]`, `["two","/live/x",7]`} {
			c := b.caller(name)
			c.update("node/a:exclusive")
			c.expectValue()
		}
		b.sendOwnerDied("/live/x")
		require.JSONEq(t, `[[["node/[lockset]",[]],["node/a",[[`+job(1)+`,"exclusive"]]]],[]]`, b.status())
		require.Equal(t, []string{"remove /live/x"}, b.port.takeCalls("remove"))
		b.sendOwnerDied("/live/x") // and nothing else happens
		b.sendOwnerDied("/live/unknown")
		require.Empty(t, b.port.takeCalls("remove"))
	})
}

// The locks of a dead job process are freed after the queue's JobCleanedUp.
func TestADeadJob(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Settle()
		before := b.status()
		b.sendOwnerDied(livelock(1))
		require.Equal(t, int64(1), kittest.Expect[*messages.AwaitJobCleanup](b.queue).Id)
		require.Equal(t, before, b.status())
		waiter.Quiet()

		b.Send(b.locks, &messages.QueueStarted{})
		require.Equal(t, int64(1), kittest.Expect[*messages.AwaitJobCleanup](b.queue).Id)
		b.Send(b.locks, &messages.JobCleanedUp{Id: 3}) // another job
		waiter.Quiet()
		b.Send(b.locks, &messages.JobCleanedUp{Id: 1})
		require.True(t, waiter.expectAwaitResult().Granted)
		require.Equal(t, b.status(), b.onDisk())
		require.Empty(t, b.port.takeCalls("remove")) // the jobs actor removes the livelock
		b.Send(b.locks, &messages.QueueStarted{})
		b.queue.Quiet()
	})
}

// A job may be cleaned up before its death is known, and a waiting job may be withdrawn.
func TestAJobIsOver(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter := b.caller(job(1)), b.caller(job(2))
		holder.takeLocks("node/a:exclusive")
		waiter.await("node/a:exclusive", 60)
		b.Settle()
		b.Send(b.locks, &messages.JobCleanedUp{Id: 2})
		require.True(t, waiter.expectAwaitResult().Withdrawn)
		b.Send(b.locks, &messages.JobCleanedUp{Id: 1})
		require.Equal(t, "[[],[]]", b.status())
		b.sendOwnerDied(livelock(1))
		b.queue.Quiet()
	})
}

// An owner that died before the start is found by the first probe.
func TestDeadAtTheStart(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files(`[[[`+named("tool")+`,[["node/a","exclusive"]]],[`+job(1)+`,[["node/b","exclusive"]]],[`+
			job(2)+`,[["node/c","exclusive"]]]],[[0,`+named("waiter")+`,[["node/c","shared"]]]]]`)))
		b.port.dead["/live/tool"], b.port.dead["/live/waiter"], b.port.dead[livelock(1)] = true, true, true
		b.start()
		require.Equal(t, int64(1), kittest.Expect[*messages.AwaitJobCleanup](b.queue).Id)
		require.JSONEq(t, `[[["node/[lockset]",[]],["node/b",[[`+job(1)+`,"exclusive"]]],["node/c",[[`+job(2)+`,"exclusive"]]]],[]]`, b.status())
		require.Equal(t, []string{"remove /live/tool", "remove /live/waiter"}, b.port.takeCalls("remove"))
	})
}

// The next incarnation repeats AwaitJobCleanup.
func TestADeadJobAndARestart(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder := b.caller(job(1))
		holder.takeLocks("node/a:exclusive")
		b.port.dead[livelock(1)] = true
		b.sendOwnerDied(livelock(1))
		kittest.Expect[*messages.AwaitJobCleanup](b.queue)
		b.crash()
		kittest.Expect[*messages.AwaitJobCleanup](b.queue)
		b.Send(b.locks, &messages.JobCleanedUp{Id: 1})
		require.Equal(t, "[[],[]]", b.status())
	})
}

// cleanupLocks is answered when the owners were probed and the release is on the disk.
func TestCleanupLocks(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		tool, watcher := b.caller(named("tool")), b.caller(named("watcher"))
		tool.takeLocks("node/a:exclusive")
		watcher.call("cleanupLocks", "[]")
		require.Equal(t, "[]", watcher.expectValue())
		require.Contains(t, b.status(), "tool")
		b.port.dead["/live/tool"], b.port.hold = true, true
		watcher.call("cleanupLocks", "[]")
		watcher.Quiet()
		write := b.disk.Block("append locks")
		b.port.held[0]()
		write.Entered()
		watcher.Quiet()
		write.Release()
		require.Equal(t, "[]", watcher.expectValue())
		require.Equal(t, "[[],[]]", b.onDisk())
	})
}

// An owner that releases its locks and returns stays watched, and the pid of a second
// process with the same livelock is used.
func TestWhoIsWatched(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		one, two := b.caller(`["one","/live/x",7]`), b.caller(`["two","/live/x",8]`)
		one.takeLocks("node/a:shared")
		two.takeLocks("node/a:shared")
		one.free()
		one.expectValue()
		require.Equal(t, []string{"watch /live/x 7", "watch /live/x 8"}, b.port.takeCalls("watch", "forget"))
		require.Equal(t, 1, b.managerStatus().Owners)
		b.sendOwnerDied("/live/x")
		require.Equal(t, 0, b.managerStatus().Owners)
	})
}

// A later process of a job does not wait for what the former one has left, whether the manager hears of the former one's end before the
// later one asks for locks or after that. No other job waits for it either.
func TestTheLocksOfAFormerTry(t *testing.T) {
	first := `[1,"/live/job_000001_1700000000_101_x",101]`
	second := `[1,"/live/job_000001_2_1700000000_102_x",102]`
	for _, heardFirst := range []bool{true, false} {
		t.Run(fmt.Sprint(heardFirst), func(t *testing.T) {
			onBench(t, nil, func(t *testing.T, b *bench) {
				former, later, other := b.caller(first), b.caller(second), b.caller(job(2))
				former.takeLocks("node/a:exclusive node/b:exclusive")
				if heardFirst {
					b.sendOwnerDied("/live/job_000001_1700000000_101_x") // the queue does not answer: the job has another process
				}
				later.await("node/a:exclusive", 60)
				require.True(t, later.expectAwaitResult().Granted)
				if !heardFirst {
					b.sendOwnerDied("/live/job_000001_1700000000_101_x")
				}
				other.await("node/b:exclusive", 60)
				require.True(t, other.expectAwaitResult().Granted)
				require.Equal(t, b.status(), b.onDisk())
			})
		})
	}
}
