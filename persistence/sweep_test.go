package persistence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/core/paths"
)

func TestTempName(t *testing.T) {
	base := filepath.Base(tempName("/var/lib/queue/job-12"))
	if !strings.HasPrefix(base, "job-12-") || !strings.HasSuffix(base, ".tmp") {
		t.Errorf("temporary name is %q", base)
	}
	if pid, ok := tempOwner(base); !ok || pid != os.Getpid() {
		t.Errorf("tempWriter(%q) = %d, %t", base, pid, ok)
	}
	if _, ok := paths.ParseJobName(base); ok {
		t.Errorf("%q passes for a job file", base)
	}
	for _, foreign := range []string{
		"job-12", "job-12-123456-0.tmp", "job-12-.tmp", ".tmp", "-1-0123456789abcdef.tmp",
		"job-12-7-0123456789abcdeX.tmp", "job-12-x-0123456789abcdef.tmp", "job-12-0-0123456789abcdef.tmp",
		"0123456789abcdef.tmp", "job-12-7-0123456789abcdef",
	} {
		if pid, ok := tempOwner(foreign); ok {
			t.Errorf("tempWriter(%q) = %d, want none", foreign, pid)
		}
	}
}

func TestSweepTemp(t *testing.T) {
	files, root := newOSFiles(t)
	living := startRole(t, "child")
	living.line()
	dead := startRole(t, "child")
	dead.line()
	dead.kill()

	longAgo := time.Unix(1_000_000_000, 0)
	temp := func(pid int, random string) string { return fmt.Sprintf("job-12-%d-%s.tmp", pid, random) }
	const young, old = "00000000000000aa", "ffffffffffffffff"
	swept := []string{temp(dead.pid(), young), temp(os.Getpid(), young), temp(living.pid(), old), "foreign-old.tmp"}
	kept := []string{temp(living.pid(), young), "foreign-young.tmp", "job-12", "job-13"}
	for _, dir := range []string{"", "queue"} {
		for _, name := range slices.Concat(swept, kept) {
			path := filepath.Join(root, dir, name)
			noError(t, os.WriteFile(path, nil, 0o640))
			if strings.Contains(name, old) || name == "foreign-old.tmp" || name == "job-13" {
				noError(t, os.Chtimes(path, longAgo, longAgo))
			}
		}
	}
	noError(t, os.Mkdir(filepath.Join(root, "queue", "dir.tmp"), 0o750))
	slices.Sort(swept)
	for _, dir := range []string{"queue", "."} {
		removed, err := files.SweepTemp(dir)
		noError(t, err)
		if !slices.Equal(removed, swept) {
			t.Errorf("%s: removed %q, want %q", dir, removed, swept)
		}
	}
	kept = append(kept, "dir.tmp")
	slices.Sort(kept)
	wantNames(t, filepath.Join(root, "queue"), kept...)
}
