package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

// Ganeti's daemon can read locks.data whatever free locks are in use, and the files of the free locks
// exist only after the first use.
func TestFreeLocksHaveFilesOfTheirOwn(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, third := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("cluster/BGL:shared node/a:exclusive")
		require.Empty(t, b.disk.Content(paths.FreeLocksJournalPath), "no free lock has been used")
		third.takeLocks("lock/other:shared")
		require.Equal(t, 2, countLines(b.disk.Content(paths.LocksJournalPath)), "Ganeti's journal has nothing of job 3")
		holder.takeLocks("lock/deploy:exclusive")
		waiter.await("cluster/BGL:shared lock/deploy:shared", 60)
		b.Settle()
		require.Equal(t, `[[["cluster/[lockset]",[]],["cluster/BGL",[[`+job(1)+`,"shared"]]],["node/[lockset]",[]],["node/a",[[`+job(1)+
			`,"exclusive"]]]],[[0,`+job(2)+`,[["cluster/BGL","shared"]]]]]`, b.status())
		want := []answer.Lock{
			{Name: "lock/deploy", Mode: "exclusive", Owners: []string{"1"}, Pending: []answer.LockWaiter{{Mode: "shared", Owner: "2"}}},
			{Name: "lock/other", Mode: "shared", Owners: []string{"3"}, Pending: []answer.LockWaiter{}},
		}
		require.Equal(t, want, b.freeLocks())
		require.Equal(t, want, b.freeLocksOnDisk())

		b.crash()
		require.Equal(t, want, b.freeLocks())
		require.Equal(t, `[[[`+job(1)+`,[["cluster/BGL","shared"],["node/a","exclusive"]]]],[]]`, b.disk.Content(paths.LocksPath), "what Ganeti reads")
		require.Equal(t, 1, countLines(b.disk.Content(paths.FreeLocksJournalPath)), "it is folded")
		waiter.await("cluster/BGL:shared lock/deploy:shared", 60)
		holder.free()
		require.True(t, waiter.expectAwaitResult().Granted)
		require.Equal(t, b.freeLocks(), b.freeLocksOnDisk())
	})
}

// A lock of Ganeti after a free one is against the order, and a name that is none is refused.
func TestTheOrderOfFreeLocks(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.takeLocks("lock/deploy:shared")
		c.update("node/a:shared")
		require.Equal(t, `Order violation: requesting Node "a" while holding Free "deploy"`, c.expectFailure())
		_, err := operation("updateLocksWaiting", `[`+job(1)+`,0,[["lock/[lockset]","shared"]]]`)
		require.EqualError(t, err, "Unknown lock name 'lock/[lockset]'")
	})
}

// A request that waits for a free lock longer than the limit is not overtaken.
func TestBoundedBypassOfFreeLocks(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.Send(b.locks, &locks.SetBypassLimit{Limit: 30 * time.Second})
		holder, waiter, late := b.caller(job(1)), b.caller(job(2)), b.caller(job(3))
		holder.takeLocks("lock/deploy:shared")
		waiter.await("lock/deploy:exclusive", 300)
		b.Advance(31 * time.Second)
		late.await("lock/deploy:shared", 300)
		b.Settle()
		late.Quiet()
		holder.free()
		require.True(t, waiter.expectAwaitResult().Granted)
		late.Quiet()
	})
}

// Unreadable files of the free locks do not take Ganeti's locks with them, and the other way round.
func TestOneUnreadablePart(t *testing.T) {
	node, deploy := `[[[`+job(1)+`,[["node/a","exclusive"]]]],[]]`, `[[[`+job(1)+`,[["lock/deploy","exclusive"]]]],[]]`
	kittest.Each(t, map[string][2]string{
		"free": {paths.FreeLocksPath, `["node/a","exclusive"]`}, "ganeti": {paths.LocksPath, `["lock/deploy","exclusive"]`},
	}, func(t *testing.T, e *kittest.Env, c [2]string) {
		found := map[string]string{paths.LocksPath: node, paths.FreeLocksPath: deploy}
		found[c[0]] = "[[]"
		b := newBench(t, e, kittest.NewDisk(found))
		b.start()
		kittest.Expect[*messages.LocksStarted](b.told)
		require.Equal(t, []string{paths.QuarantineDir + "/" + c[0]}, b.managerStatus().Quarantined)
		require.Equal(t, "["+c[1]+"]", b.caller(job(1)).listOwn())
	})
}

// Free locks of another boot have no owner.
func TestFreeLocksOfAnotherBoot(t *testing.T) {
	found := map[string]string{
		paths.FreeLocksPath:        `[[[` + job(1) + `,[["lock/deploy","exclusive"]]]],[]]`,
		paths.FreeLocksJournalPath: string(lock.JournalHeader("boot-1")),
	}
	onBench(t, found, func(t *testing.T, b *bench) {
		require.Empty(t, b.freeLocks())
		require.Equal(t, "[[],[]]", b.disk.Content(paths.FreeLocksPath))
	})
}

// After a failed write of the free locks no lock is granted until the files can be written, and the request
// is then granted as a whole.
func TestAWriteErrorOfFreeLocks(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(job(1))
		c.takeLocks("lock/x:shared")
		c.free()
		c.expectValue()
		b.disk.Fail("append locks "+paths.FreeLocksJournalPath, 1)
		c.update("cluster/BGL:shared node/a:exclusive lock/deploy:exclusive")
		require.Contains(t, c.expectFailure(), "cannot be written")
		b.Advance(time.Second)
		kittest.Expect[*messages.LocksStarted](b.told)
		c.takeLocks("cluster/BGL:shared node/a:exclusive lock/deploy:exclusive")
		require.Equal(t, b.status(), b.onDisk())
		require.Equal(t, b.freeLocks(), b.freeLocksOnDisk())
	})
}
