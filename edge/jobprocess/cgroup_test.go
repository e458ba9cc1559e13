package jobprocess

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// controlGroup makes a control group of version 2, which the test removes.
func controlGroup(t *testing.T) string {
	t.Helper()
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var stat unix.Statfs_t
		if unix.Statfs(root, &stat) != nil || stat.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(root, "lockstep-test-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) == nil {
			t.Cleanup(func() { _ = unix.Rmdir(filepath.Join(dir, "jobs")); _ = unix.Rmdir(dir) })
			return dir
		}
	}
	t.Skip("NOT RUN: no control group of version 2 can be made here")
	return ""
}

func TestAJobStartsInItsControlGroup(t *testing.T) {
	group := filepath.Join(controlGroup(t), "jobs")
	r := newFixture(t, jobProgram)
	r.port.cgroup.path = group
	door := filepath.Join(r.dir, "door")
	require.NoError(t, unix.Mkfifo(door, 0o600))
	pid, livelock := r.command("read word < " + door)
	for _, pid := range []int{pid, pidOf(livelock)} {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^0::/lockstep-test-\d+/jobs$`, strings.TrimSpace(string(content)))
	}
	require.NoError(t, os.WriteFile(door, []byte("word\n"), 0o600))
	r.awaitEnd(livelock)
}

// The fork server is in the control group of jobs, and so are the processes that it makes.
func TestAForkedProcessIsInTheControlGroup(t *testing.T) {
	group := filepath.Join(controlGroup(t), "jobs")
	g := newGanetiFixture(t, func(c *Config) { c.Cgroup = group })
	named := g.begin(1, 12)
	for _, pid := range []int{int(named.Pid), g.serverOf(named)} {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^0::/lockstep-test-\d+/jobs$`, strings.TrimSpace(string(content)))
	}
	g.confirm(1)
	g.permit(12)
	g.gone()
}

// A job does not wait for a control group.
func TestAJobStartsWithoutItsControlGroup(t *testing.T) {
	for name, make := range map[string]func(r *fixture) string{
		"no parent":                    func(r *fixture) string { return filepath.Join(r.dir, "none", "jobs") },
		"a directory that is no group": func(r *fixture) string { return r.dir },
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			r.port.cgroup.path = make(r)
			pid, livelock := r.command("sleep 60")
			require.NoError(t, unix.Kill(pid, unix.SIGKILL))
			r.awaitEnd(livelock)
		})
	}
}

// awaitEnd returns when the process of the livelock has ended.
func (r *fixture) awaitEnd(livelock string) {
	r.t.Helper()
	require.Eventually(r.t, func() bool { return !isAlive(livelock) }, patience, patience/1000)
}
