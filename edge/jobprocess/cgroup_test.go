package jobprocess

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	kernelgroup "lockstep/edge/cgroup"
	"lockstep/edge/cgroup/cgrouptest"
	"lockstep/messages"
)

func TestAJobStartsInItsControlGroup(t *testing.T) {
	group := filepath.Join(cgrouptest.New(t), "jobs")
	r := newFixture(t, jobProgram)
	r.port.cgroup.path = group
	door := filepath.Join(r.dir, "door")
	require.NoError(t, unix.Mkfifo(door, 0o600))
	pid, livelock := r.command("read word < " + door)
	for pid, want := range map[int]string{pidOf(livelock): `/jobs$`, pid: `/jobs/` + filepath.Base(livelock) + `\.0$`} {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^0::/lockstep-test-\d+`+want, strings.TrimSpace(string(content)))
	}
	require.NoError(t, os.WriteFile(door, []byte("word\n"), 0o600))
	r.awaitEnd(livelock)
	expect[*messages.ProcessGone](r)
	require.Empty(t, kernelgroup.Of(group, livelock), "the group of an ended command is removed")
}

// What the command of a dead job has started is killed with its group, and its usage is told. A process without the marker and the session
// is found by the group only.
func TestTheGroupOfADeadJob(t *testing.T) {
	group := filepath.Join(cgrouptest.New(t), "jobs")
	r := newFixture(t, jobProgram)
	r.port.cgroup.path = group
	hidden := filepath.Join(r.dir, "hidden")
	pid, livelock := r.command(`setsid env -i sh -c 'echo $$ > ` + hidden + `.new; mv ` + hidden + `.new ` + hidden + `; sleep 999' & sleep 999`)
	require.Eventually(t, func() bool { _, err := os.Stat(hidden); return err == nil }, patience, 5*time.Millisecond)
	require.NoError(t, unix.Kill(pidOf(livelock), unix.SIGKILL))
	gone := expect[*messages.ProcessGone](r)
	content, err := os.ReadFile(hidden)
	require.NoError(t, err)
	left, err := strconv.Atoi(strings.TrimSpace(string(content)))
	require.NoError(t, err)
	for _, pid := range []int{pid, left} {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		require.True(t, err != nil || strings.Contains(string(stat), ") Z "), "%s", stat)
	}
	require.Contains(t, string(gone.Usage), `"cpu_seconds":`)
	require.Zero(t, gone.UsageOp)
	require.Empty(t, kernelgroup.Of(group, livelock))
}

// The fork server is in the control group of jobs, and so are the processes that it makes.
func TestAForkedProcessIsInTheControlGroup(t *testing.T) {
	group := filepath.Join(cgrouptest.New(t), "jobs")
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
