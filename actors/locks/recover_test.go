package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/messages"
)

func TestMissingFiles(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		require.Equal(t, "[[],[]]", b.status())
		require.Equal(t, "[[],[]]", b.disk.Content(paths.LocksPath))
		require.Equal(t, string(lock.JournalHeader(boot)), b.disk.Content(paths.LocksJournalPath))
		require.Empty(t, b.managerStatus().Quarantined)
	})
}

// A restart restores holders and waiting requests, and sends LocksStarted.
func TestARestart(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		holder, waiter, tool := b.caller(job(1)), b.caller(job(2)), b.caller(named("tool"))
		holder.takeLocks("node/a:exclusive node/b:shared")
		waiter.update("node/a:exclusive")
		waiter.expectValue()
		tool.takeLocks("instance/i:shared")
		before := b.status()
		b.port.takeCalls()
		b.Restart(b.locks)
		require.Equal(t, uint64(2), kittest.Expect[*messages.LocksStarted](b.told).Incarnation)
		require.Equal(t, before, b.status())
		require.Equal(t, before, b.onDisk())
		require.Equal(t, []string{"watch /live/tool 7", "watch /live/job_000001_x 101", "watch /live/job_000002_x 102"}, b.port.takeCalls("watch", "wake"))
		holder.free()
		holder.expectValue()
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
	})
}

// Existing files: Ganeti's locks.data without a journal, and both files.
func TestTheFilesOfBefore(t *testing.T) {
	data := `[[[` + job(1) + `,[["node/a","exclusive"]]]],[[0,` + job(2) + `,[["node/a","shared"]]]]]`
	status := `[[["node/[lockset]",[]],["node/a",[[` + job(1) + `,"exclusive"]]]],[[0,` + job(2) + `,[["node/a","shared"]]]]]`
	for _, journal := range [][]string{nil, {""}} {
		onBench(t, files(data, journal...), func(t *testing.T, b *bench) {
			require.JSONEq(t, status, b.status())
			require.Equal(t, data, b.disk.Content(paths.LocksPath))
		})
	}
	change := `{"owner":` + job(3) + `,"locks":[["node/b","shared"]],"pending":null}`
	onBench(t, files(data, change, `{"owner":[4,"torn`), func(t *testing.T, b *bench) {
		require.Contains(t, b.status(), `["node/b",[[`+job(3)+`,"shared"]]]`)
		require.NotContains(t, b.status(), "torn")
		require.Equal(t, 1, countLines(b.disk.Content(paths.LocksJournalPath))) // it is folded
		c := b.caller(job(5))
		c.takeLocks("node/c:shared")
		require.Equal(t, b.status(), b.onDisk())
	})
}

// The journal ends before a grant: the grant is made and sent now.
func TestAGrantThatWasCutOff(t *testing.T) {
	data := `[[[` + job(1) + `,[["node/a","exclusive"]]]],[[0,` + job(2) + `,[["node/a","exclusive"]]]]]`
	onBench(t, files(data, `{"owner":`+job(1)+`,"locks":[],"pending":null}`, ""), func(t *testing.T, b *bench) {
		require.Equal(t, []string{"wake /live/job_000002_x 102"}, b.port.takeCalls("wake"))
		require.JSONEq(t, `[[["node/[lockset]",[]],["node/a",[[`+job(2)+`,"exclusive"]]]],[]]`, b.status())
		require.Equal(t, b.status(), b.onDisk())
	})
}

// A request that can no longer be granted is dropped.
func TestARequestThatCannotBeHad(t *testing.T) {
	data := `[[[` + job(1) + `,[["node/b","shared"]]]],[[0,` + job(1) + `,[["node/a","exclusive"]]]]]`
	onBench(t, files(data), func(t *testing.T, b *bench) {
		require.Len(t, b.Logged("pending lock request can no longer be granted; dropping it"), 1)
		require.Equal(t, b.status(), b.onDisk())
	})
}

// Locks of another boot have no owner.
func TestAJournalOfAnotherBoot(t *testing.T) {
	all := files(`[[[` + job(1) + `,[["node/a","exclusive"]]]],[]]`)
	all[paths.LocksJournalPath] = string(lock.JournalHeader("boot-1")) + `{"owner":` + job(2) + `,"locks":[["node/b","shared"]],"pending":null}` + "\n"
	onBench(t, all, func(t *testing.T, b *bench) {
		require.Equal(t, "[[],[]]", b.status())
		require.Equal(t, "[[],[]]", b.disk.Content(paths.LocksPath))
		require.Equal(t, string(lock.JournalHeader(boot)), b.disk.Content(paths.LocksJournalPath))
		require.Empty(t, b.managerStatus().Quarantined)
	})
}

// Unreadable files go to the quarantine, and the lock manager continues.
func TestUnreadableFiles(t *testing.T) {
	good := `[[[` + job(1) + `,[["node/a","exclusive"]]]],[]]`
	twice := `[[[` + job(1) + `,[["node/a","exclusive"]]],[` + job(2) + `,[["node/a","exclusive"]]]],[]]`
	kittest.Each(t, map[string]map[string]string{
		"data":                 files("[[]"),
		"data with a journal":  files("{}", ""),
		"two exclusive owners": files(twice, ""),
		"journal":              files(good, `{"owner":7}`, ""),
		"journal alone":        {paths.LocksJournalPath: "nonsense\n"},
		"journal's first line": {paths.LocksPath: good, paths.LocksJournalPath: `{"owner":` + job(1) + `,"locks":[],"pending":null}` + "\n"},
	}, func(t *testing.T, e *kittest.Env, found map[string]string) {
		b := newBench(t, e, kittest.NewDisk(found))
		b.start()
		kittest.Expect[*messages.LocksStarted](b.told)
		var moved []string
		for _, path := range []string{paths.LocksPath, paths.LocksJournalPath} {
			if content, there := found[path]; there {
				moved = append(moved, paths.QuarantineDir+"/"+path)
				require.Equal(t, content, b.disk.Content(paths.QuarantineDir+"/"+path))
			}
		}
		require.Equal(t, moved, b.managerStatus().Quarantined)
		require.Empty(t, b.managerStatus().Failure)
		require.Len(t, b.Logged("unreadable lock file moved to the quarantine; its locks are lost, also those of running jobs"), len(moved))
		c := b.caller(job(2))
		c.takeLocks("node/a:exclusive")
		require.Equal(t, b.status(), b.onDisk())
	})
}

// A file that cannot be moved is not overwritten: recovery is repeated.
func TestAQuarantineThatFails(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := newBench(t, e, kittest.NewDisk(files("[[]", "also bad", "")))
		b.disk.Fail("rename quarantine", 1)
		b.start()
		require.Equal(t, "[[]", b.disk.Content(paths.LocksPath))
		require.Contains(t, b.managerStatus().Failure, "cannot be read")
		b.Advance(100 * time.Millisecond)
		kittest.Expect[*messages.LocksStarted](b.told)
		require.Equal(t, []string{"queue/quarantine/locks.data.1", "queue/quarantine/locks.journal"}, b.managerStatus().Quarantined)
		require.Equal(t, "[[]", b.disk.Content("queue/quarantine/locks.data.1"))
	})
}

// The lock manager can read whatever it has accepted.
func TestStrangeNamesSurviveARestart(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		c := b.caller(`["a\n\u0000\u2028\ud800\"\\é",` + `"/live/\t\u007f",0]`)
		c.call("updateLocksWaiting", `[`+c.owner+`,-2147483648,[["instance/","shared"],["instance/a/b\n\"","exclusive"],["node/[lockset]","shared"],["node/\ud800","shared"]]]`)
		require.Equal(t, "[]", c.expectValue())
		waiter := b.caller(`[9223372036854775807,"",2147483647]`)
		waiter.call("updateLocksWaiting", `[`+waiter.owner+`,2147483647,[["instance/","exclusive"],["instance/x","release"],["instance/","exclusive"]]]`)
		waiter.expectValue()
		before := b.status()
		b.crash()
		require.Equal(t, before, b.status())
		require.Empty(t, b.managerStatus().Quarantined)
	})
}
