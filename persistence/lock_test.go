package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"lockstep/core/paths"
)

func queueDir(t *testing.T) (dataDir string) {
	t.Helper()
	dataDir = t.TempDir()
	noError(t, os.Mkdir(filepath.Join(dataDir, "queue"), 0o750))
	return dataDir
}

func wantLockedBy(t *testing.T, err error, pid int) {
	t.Helper()
	locked, ok := errors.AsType[*QueueLockedError](err)
	if !ok || locked.PID != pid {
		t.Errorf("got %v, want a LockedError with pid %d", err, pid)
	}
}

func TestSecondDaemonIsRefused(t *testing.T) {
	dataDir := queueDir(t)
	lock, err := LockQueue(dataDir, own)
	noError(t, err)
	second := startRole(t, "queue-lock", dataDir)
	if line, want := second.line(), fmt.Sprintf("locked by process %d", os.Getpid()); !strings.Contains(line, want) {
		t.Errorf("the second daemon says %q, want %q in it", line, want)
	}
	_, err = LockQueue(dataDir, own) // within one process, too
	wantLockedBy(t, err, os.Getpid())

	noError(t, lock.Release())
	wantNames(t, filepath.Join(dataDir, "queue"))
	third := startRole(t, "queue-lock", dataDir)
	if line := third.line(); line != "locked" {
		t.Errorf("after the release a daemon says %q", line)
	}
	_, err = LockQueue(dataDir, own)
	wantLockedBy(t, err, third.pid())
	third.resume()
	if line := third.line(); line != "released <nil>" {
		t.Errorf("the release says %q", line)
	}
}

func TestQueueLockGoesWithItsProcess(t *testing.T) {
	dataDir := queueDir(t)
	daemon := startRole(t, "queue-lock", dataDir)
	daemon.line()
	daemon.kill()
	lock, err := LockQueue(dataDir, own)
	noError(t, err)
	_, err = LockQueue(dataDir, own)
	wantLockedBy(t, err, os.Getpid())
	noError(t, lock.Release())
}

func TestQueueLockExcludesGanetisDaemon(t *testing.T) {
	dataDir := queueDir(t)
	path := filepath.Join(dataDir, paths.LockPath)
	ganeti := startRole(t, "classic-lock", path)
	if line := ganeti.line(); line != "locked" {
		t.Fatal(line)
	}
	_, err := LockQueue(dataDir, own)
	wantLockedBy(t, err, ganeti.pid())
	ganeti.kill()

	lock, err := LockQueue(dataDir, own)
	noError(t, err)
	defer lock.Release()
	if line := startRole(t, "classic-lock", path).line(); line != "conflict" {
		t.Errorf("Ganeti's daemon gets %q", line)
	}
}

// After queue/lock was removed under a running daemon, no second daemon can start, because
// the directory is locked too. The first daemon detects the removal.
func TestARemovedLockFileLetsNobodyIn(t *testing.T) {
	for name, dir := range map[string]bool{"on disk": false, "by a symbolic link": true} {
		t.Run(name, func(t *testing.T) {
			dataDir := queueDir(t)
			if dir {
				elsewhere := filepath.Join(t.TempDir(), "elsewhere")
				noError(t, os.Rename(filepath.Join(dataDir, "queue"), elsewhere))
				noError(t, os.Symlink(elsewhere, filepath.Join(dataDir, "queue")))
			}
			lock, err := LockQueue(dataDir, own)
			noError(t, err)
			noError(t, lock.CheckHeld())
			noError(t, os.Remove(lock.path))
			second := startRole(t, "queue-lock", dataDir)
			if line, want := second.line(), fmt.Sprintf("locked by process %d", os.Getpid()); !strings.Contains(line, want) {
				t.Errorf("the second daemon says %q, want %q in it", line, want)
			}
			if replaced, ok := errors.AsType[*LockReplacedError](lock.CheckHeld()); !ok || replaced.Path != lock.path {
				t.Errorf("the first daemon does not notice: %v", lock.CheckHeld())
			}
			noError(t, lock.Release())
			next, err := LockQueue(dataDir, own)
			noError(t, err)
			noError(t, next.Release())
		})
	}
}

// A daemon that waits with the old file open must not take it for the lock of the queue
// after the file was unlinked. The release of an old lock must not remove the file of a new
// one.
func TestUnlinkedLockFileIsNotTaken(t *testing.T) {
	dataDir := queueDir(t)
	lock, err := LockQueue(dataDir, own)
	noError(t, err)
	noError(t, os.Remove(lock.path))
	if lock.namesLockedFile() {
		t.Error("a lock on an unlinked file counts as the queue's")
	}
	noError(t, lock.dir.release()) // as on a file system without locks of directories
	lock.dir = dirLock{}
	next, err := LockQueue(dataDir, own)
	noError(t, err)
	if !next.namesLockedFile() || lock.namesLockedFile() {
		t.Error("the new file is not told from the old one")
	}
	noError(t, lock.Release())
	if !next.namesLockedFile() {
		t.Error("the release of the old lock removed the new file")
	}
	noError(t, next.Release())
}

func TestRunDirectoryHasOneDaemon(t *testing.T) {
	runDir := t.TempDir()
	lock, err := LockRun(runDir)
	noError(t, err)
	second := startRole(t, "run-lock", runDir)
	if line, want := second.line(), fmt.Sprintf("in use by process %d", os.Getpid()); !strings.Contains(line, want) {
		t.Errorf("the second daemon says %q, want %q in it", line, want)
	}
	noError(t, lock.Release())
	wantNames(t, runDir)
	third := startRole(t, "run-lock", runDir)
	if line := third.line(); line != "locked" {
		t.Errorf("after the release a daemon says %q", line)
	}
	third.kill()
	lock, err = LockRun(runDir)
	noError(t, err)
	noError(t, lock.Release())
}

// Holders lock and release as fast as they can. A process that has opened the file before
// its holder unlinked it, and locks it afterwards, must detect this.
func TestQueueLockHasOneHolder(t *testing.T) {
	dataDir := queueDir(t)
	var holders, acquired atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 300 {
				lock, err := LockQueue(dataDir, own)
				if err != nil {
					if _, ok := errors.AsType[*QueueLockedError](err); !ok {
						t.Error(err)
					}
					continue
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				if !lock.namesLockedFile() {
					t.Error("a holder's file has lost its name: another may hold a new one")
				}
				acquired.Add(1)
				holders.Add(-1)
				if err := lock.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if acquired.Load() == 0 {
		t.Error("nobody ever got the lock")
	}
}

func TestLockQueueWithoutQueue(t *testing.T) {
	dataDir := t.TempDir()
	_, err := LockQueue(dataDir, own)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dataDir, paths.LockPath)) {
		t.Errorf("got %v", err)
	}
}

// A daemon that is killed while it spawns leaves its lock with the child until the child
// has executed another program. The next daemon waits for this.
func TestALockOfADeadDaemonIsWaitedFor(t *testing.T) {
	dataDir := queueDir(t)
	dead := startRole(t, "queue-lock", queueDir(t))
	dead.line()
	dead.kill()
	held, err := LockQueue(dataDir, own)
	noError(t, err)
	noError(t, os.WriteFile(filepath.Join(dataDir, paths.LockPath), fmt.Appendf(nil, "%d\n", dead.pid()), 0o640))
	pauses := 0
	lock, err := lockQueue(dataDir, own, func() {
		if pauses++; pauses == 3 {
			noError(t, held.Release())
		}
	})
	noError(t, err)
	if pauses != 3 {
		t.Fatalf("the lock was taken after %d pauses, and released after 3", pauses)
	}
	noError(t, lock.Release())
}
