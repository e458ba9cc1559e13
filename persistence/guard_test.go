package persistence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lockstep/core/paths"
)

func wantFound(t *testing.T, path string, wantHeld, wantLeft bool) {
	t.Helper()
	if held, left := FindLivelock(path); held != wantHeld || left != wantLeft {
		t.Errorf("%s: held is %t, left is %t, want %t and %t", path, held, left, wantHeld, wantLeft)
	}
}

func TestFindLivelock(t *testing.T) {
	dir := t.TempDir()
	wantFound(t, filepath.Join(dir, "absent"), false, false)
	file := filepath.Join(dir, "file")
	noError(t, os.WriteFile(file, nil, 0o640))
	wantFound(t, filepath.Join(file, "below"), true, false) // not known
	lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(7), own)
	noError(t, err)
	wantFound(t, lock.Path(), true, false)
	noError(t, lock.Release())
	wantFound(t, lock.Path(), false, false)
	job := startRole(t, "livelock", dir, paths.JobLivelockNameStart(8))
	path := job.line()
	wantFound(t, path, true, false)
	job.kill()
	wantFound(t, path, false, true)
}

// A livelock that its process makes and releases is never taken for one that a dead process has left.
func TestAReleasedLivelockIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			names, _ := listNames(dir)
			for _, name := range names {
				if !isOwnLivelockName(name) {
					continue
				}
				if _, left := FindLivelock(filepath.Join(dir, name)); left {
					t.Errorf("%s was taken for one of a dead process", name)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	for i := range 500 {
		lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(int64(i)), own)
		noError(t, err)
		noError(t, lock.Release())
	}
	close(done)
	looking.Wait()
}

// A lease that is not known is no reason to end anything.
func TestLeaseOverFor(t *testing.T) {
	dir := t.TempDir()
	want := func(what string, atLeast, atMost time.Duration) {
		t.Helper()
		if over := LeaseOverFor(dir); over < atLeast || over > atMost {
			t.Errorf("%s: the lease is over for %v", what, over)
		}
	}
	want("no lease", 0, 0)
	lease, err := CreateLease(dir)
	noError(t, err)
	want("never given", 0, 0)
	noError(t, lease.Renew(Forever))
	want("without end", 0, 0)
	noError(t, lease.Renew(SinceBoot()+time.Hour))
	want("valid", 0, 0)
	noError(t, lease.Renew(SinceBoot()-time.Minute))
	want("over", time.Minute, time.Hour)
	noError(t, os.WriteFile(leasePath(dir), []byte("x"), 0o640))
	want("cut", 0, 0)
}

func TestTheLockOfTheGuard(t *testing.T) {
	dir := t.TempDir()
	if _, err := LockGuard(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without directory: %v", err)
	}
	if IsGuarded(dir) {
		t.Error("guarded without directory")
	}
	noError(t, os.Mkdir(LivelockDir(dir), 0o750))
	for range 2 { // a probe takes nothing
		if IsGuarded(dir) {
			t.Error("guarded without guard")
		}
	}
	lock, err := LockGuard(dir)
	noError(t, err)
	if !IsGuarded(dir) || !lock.Holds(dir) {
		t.Error("not guarded with a guard")
	}
	noError(t, os.Rename(LivelockDir(dir), dir+"/former"))
	noError(t, os.Mkdir(LivelockDir(dir), 0o750))
	if IsGuarded(dir) || lock.Holds(dir) {
		t.Error("the guard of the former directory counts")
	}
	noError(t, lock.Release())
}
