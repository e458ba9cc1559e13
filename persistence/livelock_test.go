package persistence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

func wantAlive(t *testing.T, path string, want bool) {
	t.Helper()
	alive, err := ProbeLivelock(path)
	noError(t, err)
	if alive != want {
		t.Errorf("%s: alive is %t, want %t", path, alive, want)
	}
}

func TestLivelock(t *testing.T) {
	dir := t.TempDir()
	lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(12), own)
	noError(t, err)
	if pattern := regexp.MustCompile(`/job_000012_\d{10,}_` + strconv.Itoa(os.Getpid()) + `_[0-9a-f]{8}$`); !pattern.MatchString(lock.Path()) {
		t.Errorf("path is %s, want it to match %s", lock.Path(), pattern)
	}
	wantNames(t, dir, filepath.Base(lock.Path()))
	info, err := os.Stat(lock.Path())
	noError(t, err)
	if info.Mode() != 0o640 || info.Size() != 0 {
		t.Errorf("mode is %v, size %d", info.Mode(), info.Size())
	}
	// Probing closes a descriptor of the file, which would end a classic lock.
	for range 3 {
		runtime.GC()
		wantAlive(t, lock.Path(), true)
	}
	other, err := CreateLivelock(dir, paths.JobLivelockNameStart(12), own)
	noError(t, err)
	if other.Path() == lock.Path() {
		t.Error("two livelocks have one name")
	}
	noError(t, lock.Release())
	wantAlive(t, lock.Path(), false)
	wantAlive(t, other.Path(), true)
	noError(t, other.Release())
	wantNames(t, dir)
}

func TestNoteInALivelock(t *testing.T) {
	dir := t.TempDir()
	lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(12), own)
	noError(t, err)
	content, err := ReadOwnerInfo(lock.Path())
	noError(t, err)
	if len(content) != 0 {
		t.Errorf("it says %q before anything was noted", content)
	}
	noError(t, lock.WriteOwnerInfo([]byte("boot 7 8\n")))
	content, err = ReadOwnerInfo(lock.Path())
	noError(t, err)
	if string(content) != "boot 7 8\n" {
		t.Errorf("it says %q", content)
	}
	wantAlive(t, lock.Path(), true)
	noError(t, lock.Release())
	if _, err := ReadOwnerInfo(lock.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestLivelockPathIsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	noError(t, os.Mkdir("livelocks", 0o750))
	lock, err := CreateLivelock("livelocks", DaemonLivelock, own)
	noError(t, err)
	defer lock.Release()
	if !filepath.IsAbs(lock.Path()) {
		t.Errorf("path is %s", lock.Path())
	}
}

func TestLivelockOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	job := startRole(t, "livelock", dir, paths.JobLivelockNameStart(7))
	path := job.line()
	wantAlive(t, path, true)
	job.kill()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the file should be there still: %v", err)
	}
	wantAlive(t, path, false)
}

// A child of a job process does not inherit the livelock, which would make a dead job look
// alive.
func TestChildDoesNotInheritTheLivelock(t *testing.T) {
	job := startRole(t, "livelock-and-child", t.TempDir(), paths.JobLivelockNameStart(7))
	path := job.line()
	if line := job.line(); line != "child started" {
		t.Fatal(line)
	}
	wantAlive(t, path, true)
	job.kill()
	wantAlive(t, path, false)
	job.resume()
	if line := job.line(); line != "child still here" {
		t.Errorf("the child says %q", line)
	}
}

func TestLivelocksAgreeWithClassicRecordLocks(t *testing.T) {
	dir := t.TempDir()
	lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(7), own)
	noError(t, err)
	defer lock.Release()
	if line := startRole(t, "classic-probe", lock.Path()).line(); line != "conflict" {
		t.Errorf("Ganeti's probe of a living process says %q", line)
	}

	path := filepath.Join(dir, "job_000008_1700000000")
	ganeti := startRole(t, "classic-lock", path)
	if line := ganeti.line(); line != "locked" {
		t.Fatal(line)
	}
	wantAlive(t, path, true)
	ganeti.kill()
	wantAlive(t, path, false)
	if line := startRole(t, "classic-probe", path).line(); line != "locked" {
		t.Errorf("Ganeti's probe of a dead process says %q", line)
	}
}

func TestProbeDoubtIsAlive(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	noError(t, os.WriteFile(file, nil, 0o640))
	wantAlive(t, filepath.Join(dir, "absent"), false)
	wantAlive(t, filepath.Join(dir, "absent/absent"), false)
	for _, path := range []string{"", filepath.Join(file, "below")} {
		if alive, err := ProbeLivelock(path); !alive || err == nil {
			t.Errorf("ProbeLivelock(%q) = %t, %v, want alive and an error", path, alive, err)
		}
	}
	pipe := filepath.Join(dir, "pipe")
	noError(t, unix.Mkfifo(pipe, 0o640))
	_, _ = ProbeLivelock(pipe) // must not block
}

func TestCreateLivelockFails(t *testing.T) {
	dir := t.TempDir()
	if _, err := CreateLivelock(filepath.Join(dir, "absent"), DaemonLivelock, own); err == nil {
		t.Error("no error in an absent directory")
	}
}

// A livelock file is locked from the moment that its final name exists.
func TestLivelockIsNeverSeenUnlocked(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var prober sync.WaitGroup
	prober.Go(func() {
		for {
			names, err := listNames(dir)
			if err != nil {
				t.Error(err)
			}
			for _, name := range names {
				path := filepath.Join(dir, name)
				if !isOwnLivelockName(name) {
					continue
				}
				if alive, _ := ProbeLivelock(path); !alive {
					t.Errorf("%s was seen unlocked", name)
				}
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	var locks []*Livelock
	for i := range 200 {
		lock, err := CreateLivelock(dir, paths.JobLivelockNameStart(int64(i)), own)
		noError(t, err)
		locks = append(locks, lock)
	}
	close(done)
	prober.Wait()
	for _, lock := range locks {
		noError(t, lock.Release())
	}
}

func TestSweepLivelocks(t *testing.T) {
	dir := t.TempDir()
	living, err := CreateLivelock(dir, DaemonLivelock, own)
	noError(t, err)
	defer living.Release()
	var dead []string
	for id := range int64(3) {
		job := startRole(t, "livelock", dir, paths.JobLivelockNameStart(id))
		dead = append(dead, filepath.Base(job.line()))
		job.kill()
	}
	old := time.Now().Add(-2 * foreignGrace)
	create := func(name string, modified time.Time) string {
		path := filepath.Join(dir, name)
		noError(t, os.WriteFile(path, nil, 0o640))
		noError(t, os.Chtimes(path, modified, modified))
		return name
	}
	foreignOld := create("job_000009_1700000000", old)
	foreignYoung := create("job_000010_1700000000", time.Now())
	longAgo := time.Unix(1_000_000_000, 0)
	temp := create(fmt.Sprintf("job_000011_1_1_0123abcd-%d-0123456789abcdef.tmp", os.Getppid()), longAgo)
	tempYoung := create(fmt.Sprintf("job_000012_1_1_0123abcd-%d-0123456789abcdef.tmp", os.Getppid()), time.Now())
	noError(t, os.Mkdir(filepath.Join(dir, "subdirectory"), 0o750))

	keep := func(name string) bool { return name == dead[1] }
	removed, err := SweepLivelocks(dir, keep)
	noError(t, err)
	want := []string{dead[0], dead[2], foreignOld, temp}
	slices.Sort(want)
	if !slices.Equal(removed, want) {
		t.Errorf("removed %q, want %q", removed, want)
	}
	left := []string{filepath.Base(living.Path()), dead[1], foreignYoung, tempYoung, "subdirectory"}
	slices.Sort(left)
	wantNames(t, dir, left...)
	wantAlive(t, living.Path(), true)

	removed, err = SweepLivelocks(filepath.Join(dir, "absent"), keep)
	if len(removed) != 0 || err != nil {
		t.Errorf("an absent directory gives %q, %v", removed, err)
	}
}
