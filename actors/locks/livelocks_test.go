package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/messages"
)

func (b *bench) sendOwnerDied(livelock string) {
	b.Send(b.locks, &messages.OwnerDied{Livelock: livelock})
	b.Settle()
}

// What a dead owner has held is free, and its livelock is removed when that is
// written.
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

// A livelock of somebody whose end could not be written stays.
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

// Who only waits is as dead as who holds something; several may share a livelock.
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
		b.sendOwnerDied("/live/x") // and nothing more
		b.sendOwnerDied("/live/unknown")
		require.Empty(t, b.port.takeCalls("remove"))
	})
}

// What a dead job's process has held is free when nothing is left of it, and the
// job's end is on the disk: the queue says so.
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
		b.Send(b.locks, &messages.JobCleanedUp{Id: 3}) // another's
		waiter.Quiet()
		b.Send(b.locks, &messages.JobCleanedUp{Id: 1})
		require.True(t, waiter.expectAwaitResult().Granted)
		require.Equal(t, b.status(), b.onDisk())
		require.Empty(t, b.port.takeCalls("remove")) // that is the business of whoever minds the job
		b.Send(b.locks, &messages.QueueStarted{})
		b.queue.Quiet()
	})
}

// A job may be over before its death is noted, and a waiting one be withdrawn.
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

// Who was dead before the start is found by the first look.
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

// What the queue was asked is asked again by the next incarnation.
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

// cleanupLocks is answered when the dead have been looked for and what they held
// is written to be free.
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

// Who comes and goes is watched all along, and a second process of the same
// livelock is noted.
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
