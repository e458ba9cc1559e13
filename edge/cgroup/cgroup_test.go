package cgroup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/cgroup"
	"lockstep/edge/cgroup/cgrouptest"
)

const (
	patience = 30 * time.Second
	livelock = "/run/lockstep/livelocks/job_000007_1795000000_4711_0a1b2c3d"
)

func write(t *testing.T, content string, names ...string) {
	t.Helper()
	path := filepath.Join(names...)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// The names alone say which groups are of a job: of no other job, and of no program that makes groups there, too.
func TestTheGroupsOfAJob(t *testing.T) {
	parent := t.TempDir()
	base := filepath.Base(livelock)
	for _, name := range []string{base + ".0", base + ".12", base, base + ".x", base + ".-1", base + "0.1", "job_000008_1_2_3.0", "init.scope"} {
		require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o755))
	}
	write(t, "", parent, base+".3")
	require.Equal(t, []string{filepath.Join(parent, base+".0"), filepath.Join(parent, base+".12")}, cgroup.Of(parent, livelock))
	require.Equal(t, 12, cgroup.OpOf(filepath.Join(parent, base+".12"), livelock))
	require.Empty(t, cgroup.Of(filepath.Join(parent, "none"), livelock))
	require.Empty(t, cgroup.Of("", livelock))
}

// CPU time needs no controller, a peak of memory does.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	_, known := cgroup.UsageOf(dir)
	require.False(t, known)
	write(t, "usage_usec 1987654\nuser_usec 1000000\nsystem_usec 987654\n", dir, "cpu.stat")
	u, known := cgroup.UsageOf(dir)
	require.True(t, known)
	require.Equal(t, cgroup.Usage{CPU: 1987654 * time.Microsecond}, u)
	write(t, "12345344\n", dir, "memory.peak")
	u, _ = cgroup.UsageOf(dir)
	require.EqualValues(t, 12345344, u.MemoryPeak)
	write(t, "nr_periods 5\n", dir, "cpu.stat")
	_, known = cgroup.UsageOf(dir)
	require.False(t, known)
}

// A directory that is no control group is refused, and nothing is left there.
func TestADirectoryIsNoGroup(t *testing.T) {
	parent := t.TempDir()
	_, err := cgroup.Make(parent, livelock, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = cgroup.Make(filepath.Join(parent, "none"), livelock, 0)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// start starts a shell script in a group of its own.
func start(t *testing.T, parent, script string) (path string, cmd *exec.Cmd) {
	t.Helper()
	g, err := cgroup.Make(parent, livelock, 3)
	require.NoError(t, err)
	defer g.Close()
	cmd = exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return g.Path, cmd
}

// awaitProcesses returns the pids in the group when there are so many.
func awaitProcesses(t *testing.T, path string, count int) (pids []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		pids = cgroup.Processes(path)
		return len(pids) == count
	}, patience, 5*time.Millisecond)
	return pids
}

// Nothing that a command has started outlives its group, however it hides, with the kernel's own way and with the one for older kernels.
func TestAGroupIsKilledWhole(t *testing.T) {
	for name, kill := range map[string]func(string, time.Duration) error{
		"cgroup.kill": cgroup.Kill,
		"freeze":      func(path string, d time.Duration) error { return cgroup.KillFrozen(path, time.Now().Add(d)) },
	} {
		t.Run(name, func(t *testing.T) {
			parent := cgrouptest.New(t)
			path, cmd := start(t, parent, `setsid env -i sleep 999 & sleep 999 & wait`)
			pids := awaitProcesses(t, path, 3) // the shell and two that it has started
			nested := filepath.Join(path, "nested")
			require.NoError(t, os.Mkdir(nested, 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(nested, "cgroup.procs"), []byte(strconv.Itoa(pids[2])), 0))
			cgroup.Remove(path)
			require.DirExists(t, nested, "a group with processes stays")
			require.NoError(t, kill(path, patience))
			require.Error(t, cmd.Wait())
			for _, pid := range pids {
				require.Eventually(t, func() bool { return isDead(pid) }, patience, time.Millisecond)
			}
			require.NoError(t, kill(path, patience), "it is empty")
			cgroup.Remove(path)
			require.NoDirExists(t, path)
			require.NoError(t, cgroup.Kill(path, patience), "it is gone")
		})
	}
}

// isDead reports whether a process has ended; what has lost its parent may be a zombie that is not reaped.
func isDead(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(content), ") Z ")
}

// The kernel counts the CPU time of all processes of the group, also of those that have ended and that their parents have not waited for.
func TestCPUTimeOfARealGroup(t *testing.T) {
	path, _ := start(t, cgrouptest.New(t), `(i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) & exec sleep 999`)
	require.Eventually(t, func() bool {
		used, known := cgroup.UsageOf(path)
		return known && used.CPU > 20*time.Millisecond && len(cgroup.Processes(path)) == 1
	}, patience, 5*time.Millisecond)
	require.NoError(t, cgroup.Kill(path, patience))
}

// Groups without processes are removed if their job has ended, and no others.
func TestEmptyGroupsAreRemoved(t *testing.T) {
	parent := cgrouptest.New(t)
	populated, _ := start(t, parent, "exec sleep 999")
	awaitProcesses(t, populated, 1)
	for _, name := range []string{"job_000001_1_2_3.0", "job_000002_1_2_3.1", "other.0"} {
		require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o755))
	}
	cgroup.RemoveEmpty(parent, func(livelock string) bool { return livelock == "job_000002_1_2_3" })
	require.NoDirExists(t, filepath.Join(parent, "job_000001_1_2_3.0"))
	require.DirExists(t, filepath.Join(parent, "job_000002_1_2_3.1"), "its job lives")
	require.DirExists(t, filepath.Join(parent, "other.0"))
	require.DirExists(t, populated)
	cgroup.RemoveEmpty(filepath.Join(parent, "none"), nil)
	require.NoError(t, cgroup.Kill(populated, patience))
}

// The processes of a group can be moved out of it, so that it may have controllers for others.
func TestProcessesAreMoved(t *testing.T) {
	path, _ := start(t, cgrouptest.New(t), "exec sleep 999")
	pids := awaitProcesses(t, path, 1)
	require.NoError(t, cgroup.MoveProcesses(path, filepath.Join(path, "unit")))
	require.Empty(t, cgroup.Processes(path))
	require.Equal(t, pids, cgroup.Processes(filepath.Join(path, "unit")))
	require.NoError(t, cgroup.Kill(path, patience))
}

// A guard looks at groups of commands in which processes live, with and without limits, and at no others.
func TestPopulatedGroups(t *testing.T) {
	parent := filepath.Join(cgrouptest.New(t), "jobs")
	limited := parent + ".limited"
	base := filepath.Base(livelock)
	for _, dir := range []string{parent, limited} {
		require.NoError(t, os.Mkdir(dir, 0o755))
	}
	require.Empty(t, cgroup.Populated(parent))
	var want []string
	for _, path := range []string{filepath.Join(parent, base+".0"), filepath.Join(limited, base+".1"), filepath.Join(parent, "other")} {
		require.NoError(t, os.Mkdir(path, 0o755))
		require.NoError(t, os.Mkdir(path+"0", 0o755)) // without processes
		sleep := exec.Command("sleep", "999")
		require.NoError(t, sleep.Start())
		t.Cleanup(func() { _ = sleep.Process.Kill(); _ = sleep.Wait() })
		require.NoError(t, os.WriteFile(filepath.Join(path, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0))
		if cgroup.LivelockOf(path) != "" {
			require.Equal(t, base, cgroup.LivelockOf(path))
			want = append(want, path)
		}
	}
	require.Equal(t, want, cgroup.Populated(parent))
	require.Empty(t, cgroup.Populated(""))
}
