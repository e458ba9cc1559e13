package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/paths"
	"lockstep/messages"
)

const cannotWrite = "The state of the locks cannot be written, so nothing was changed: locks: append locks.journal: the disk says no"

// After a failed write the caller gets an error, memory is restored from the disk, and no
// lock is granted until the files can be written.
func TestAWriteError(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, c, waiter := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("node/a:exclusive")
		before := b.status()
		b.disk.Fail("append locks", 1)
		b.disk.Fail("replace locks", 2)
		write := b.disk.Block("append locks")
		c.update("node/b:exclusive")
		write.Entered()
		waiter.await("node/a:exclusive", 60) // too late for the write
		holder.call("listAllLocks", "[]")
		b.Settle()
		write.Release()
		require.Equal(t, cannotWrite, c.expectFailure())
		require.Equal(t, cannotWrite, waiter.expectFailure())
		require.Equal(t, cannotWrite, holder.expectFailure()) // the answer would report a change that has not happened
		c.update("node/c:exclusive")
		require.Equal(t, cannotWrite, c.expectFailure())
		require.Equal(t, cannotWrite, b.managerStatus().Failure)
		require.Equal(t, before, b.onDisk())
		b.told.Quiet()

		b.Advance(100 * time.Millisecond) // the first fold fails
		c.update("node/c:exclusive")
		require.Contains(t, c.expectFailure(), "cannot be written")
		b.Advance(200 * time.Millisecond) // the second fold fails
		require.NotEmpty(t, b.managerStatus().Failure)
		b.told.Quiet()
		b.Advance(400 * time.Millisecond)
		kittest.Expect[*messages.LocksStarted](b.told)
		require.Equal(t, before, b.status())
		require.JSONEq(t, `{"owners":1,"waiting":0,"quarantined":[]}`, toJSON(t, b.managerStatus()))
		c.takeLocks("node/b:exclusive")
		require.Equal(t, b.status(), b.onDisk())
	})
}

// An error also reports the state of the locks, so it waits for the disk.
func TestAWriteErrorBehindAnError(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, again := b.caller(job(1)), b.caller(job(1))
		write := b.disk.Block("append locks")
		c.update("node/b:exclusive")
		write.Entered()
		again.update("node/a:exclusive")
		again.Quiet()
		write.Release()
		require.Equal(t, "[]", c.expectValue())
		require.Contains(t, again.expectFailure(), "Order violation: ")

		write = b.disk.Block("append locks")
		b.disk.Fail("append locks", 1)
		c.update("node/c:exclusive")
		write.Entered()
		again.update("node/a:exclusive")
		b.Settle()
		write.Release()
		require.Equal(t, cannotWrite, c.expectFailure())
		require.Equal(t, cannotWrite, again.expectFailure())
	})
}

// After a success the delay starts at its minimum.
func TestTheNextErrorIsAFirstOne(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		for range 3 {
			b.disk.Fail("append locks", 1)
			c.update("node/a:exclusive")
			c.expectFailure()
			b.Advance(100 * time.Millisecond)
			kittest.Expect[*messages.LocksStarted](b.told)
		}
		c.takeLocks("node/a:exclusive")
	})
}

// An owner does not receive a grant whose write has failed, and keeps its place when the
// files are read again.
func TestAWriteErrorOfAGrant(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, stock, ours := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("node/a:exclusive")
		stock.update("node/a:shared")
		stock.expectValue()
		ours.await("node/a:shared", 60)
		b.Settle()
		before := b.status()
		b.port.takeCalls()
		b.disk.Fail("append locks", 1)
		holder.free()
		require.Equal(t, cannotWrite, holder.expectFailure())
		require.Equal(t, cannotWrite, ours.expectFailure())
		require.Empty(t, b.port.takeCalls("wake"))
		b.Advance(100 * time.Millisecond)
		require.Equal(t, before, b.status())
		ours.await("node/a:shared", 60)
		holder.free()
		require.Equal(t, "[]", holder.expectValue())
		require.True(t, ours.expectAwaitResult().Granted)
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
	})
}

// A failed write may have left a part of its records. The readable records count.
func TestAWriteErrorThatLeavesSomething(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, d := b.caller(job(1)), b.caller(job(2))
		c.takeLocks("node/a:exclusive")
		write := b.disk.Block("append locks")
		d.update("node/b:exclusive")
		write.Entered()
		torn := `{"owner":` + job(2) + `,"locks":[["node/b","exclusive"]],"pending":null}` + "\n" + `{"owner":[3,"/liv`
		require.NoError(t, b.disk.Append("a part of it", paths.LocksJournalPath, []byte(torn)))
		b.disk.Fail("append locks", 1)
		write.Release()
		require.Equal(t, cannotWrite, d.expectFailure())
		b.Advance(100 * time.Millisecond)
		kittest.Expect[*messages.LocksStarted](b.told)
		require.Equal(t, `[["node/b","exclusive"]]`, d.listOwn())
		require.Contains(t, b.port.takeCalls("watch"), "watch /live/job_000002_x 102")
		c.takeLocks("node/c:exclusive") // the torn line is gone
		require.Equal(t, b.status(), b.onDisk())
	})
}

// Unreadable files are read again; calls that come meanwhile are refused.
func TestAReadError(t *testing.T) {
	for _, failing := range []string{"read locks locks.data", "read locks locks.journal"} {
		kittest.Run(t, func(t *testing.T, e *kittest.Env) {
			b := newBench(t, e, kittest.NewDisk(files(`[[[`+job(1)+`,[["node/a","exclusive"]]]],[]]`, "")))
			b.disk.Fail(failing, 2)
			reading := b.disk.Block(failing)
			b.start()
			reading.Entered()
			c := b.caller(job(2))
			c.update("node/b:exclusive")
			c.Quiet()
			reading.Release()
			require.Contains(t, c.expectFailure(), "The state of the locks cannot be read: ")
			c.call("listAllLocks", "[]")
			require.Contains(t, c.expectFailure(), "The state of the locks cannot be read: ")
			b.Advance(100 * time.Millisecond)
			b.told.Quiet()
			b.Advance(200 * time.Millisecond)
			kittest.Expect[*messages.LocksStarted](b.told)
			c.call("listAllLocks", "[]")
			require.JSONEq(t, `["node/[lockset]","node/a"]`, c.expectValue())
		})
	}
}

// A failed fold loses nothing.
func TestAFoldThatFails(t *testing.T) {
	for _, failing := range []string{paths.LocksPath, paths.LocksJournalPath} {
		onBench(t, nil, func(t *testing.T, b *bench) {
			holder, busy := b.caller(job(1)), b.caller(job(2))
			holder.takeLocks("node/a:exclusive")
			b.disk.Fail("replace locks "+failing, 1)
			write := b.disk.Block("append locks")
			busy.toggle(2001)
			write.Entered()
			b.Settle() // so that the fold is the last write
			write.Release()
			answers := busy.Unread()
			require.Len(t, answers, 2001)
			for _, m := range answers {
				require.Nil(t, m.(*locks.OperateResult).Failure)
			}
			require.NotEmpty(t, b.managerStatus().Failure)
			b.Advance(100 * time.Millisecond)
			require.Empty(t, b.managerStatus().Failure)
			require.Equal(t, b.status(), b.onDisk())
			require.Contains(t, b.status(), job(1))
			require.Contains(t, b.status(), job(2))
		})
	}
}

// Cleanup is refused like all calls.
func TestCleanupWithoutAState(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, other := b.caller(job(1)), b.caller(named("watcher"))
		b.port.hold = true
		other.call("cleanupLocks", "[]")
		other.Quiet()
		b.disk.Fail("append locks", 1)
		c.update("node/a:exclusive")
		c.expectFailure()
		b.port.held[0]()
		require.Equal(t, cannotWrite, other.expectFailure())
	})
}

// The death of an owner while there is no state is found later.
func TestDeathWithoutAState(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c, tool := b.caller(job(1)), b.caller(named("tool"))
		tool.takeLocks("node/a:exclusive")
		b.disk.Fail("append locks", 1)
		c.update("node/b:exclusive")
		c.expectFailure()
		b.port.mu.Lock()
		b.port.dead["/live/tool"] = true
		b.port.mu.Unlock()
		b.Send(b.locks, &messages.OwnerDied{Livelock: "/live/tool"})
		b.Settle()
		require.Contains(t, b.onDisk(), "node/a")
		b.Advance(100 * time.Millisecond)
		require.Equal(t, "[[],[]]", b.status())
		require.Equal(t, "[[],[]]", b.onDisk())
		require.Equal(t, []string{"remove /live/tool"}, b.port.takeCalls("remove"))
	})
}
