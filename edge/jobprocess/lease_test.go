package jobprocess

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/reaper"
	"lockstep/messages"
	"lockstep/persistence"
)

func (r *fixture) runDir() string { return filepath.Join(r.dir, "run") }

// lease is the lease of the node, which ends in an hour.
func (r *fixture) lease() *persistence.Lease {
	r.t.Helper()
	l, err := persistence.CreateLease(r.runDir())
	require.NoError(r.t, err)
	require.NoError(r.t, l.Renew(persistence.SinceBoot()+time.Hour))
	r.port.config.Permission = jobproc.LeaseRequired
	return l
}

// command starts job 7 with a script that first prints its pid. It returns the pid and the
// livelock of the job.
func (r *fixture) command(script string) (pid int, livelock string) {
	r.t.Helper()
	output := filepath.Join(r.dir, "pid")
	input, err := json.Marshal(map[string]any{"OP_ID": "OP_RUN_COMMAND",
		"argv": []string{"/bin/sh", "-c", "echo $$ > " + output + ".new; mv " + output + ".new " + output + "; " + script}})
	require.NoError(r.t, err)
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	j := job.New(7, []json.RawMessage{input}, []int{0}, job.Timestamp{Sec: 1}, named.Livelock)
	j.ProcessID = int(named.Pid)
	require.NoError(r.t, r.files.Replace("test", paths.JobPath(7), job.Encode(j)))
	r.port.Confirm(1, []byte(`[null]`))
	expect[*messages.ProcessConfirmed](r)
	require.Eventually(r.t, func() bool {
		content, err := os.ReadFile(output)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(content)))
		}
		return err == nil
	}, patience, 5*time.Millisecond)
	return pid, named.Livelock
}

func (r *fixture) status() job.Status {
	r.t.Helper()
	content, err := r.files.Read("test", paths.JobPath(7))
	require.NoError(r.t, err)
	j, err := job.Decode(content)
	require.NoError(r.t, err)
	return j.Status()
}

// processStat returns the fields of /proc/PID/stat after the name: state, parent, group.
func processStat(pid int) (fields []string, lives bool) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, false
	}
	fields = strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	return fields, fields[0] != "Z" // a zombie has ended
}

// group returns the living processes of a process group.
func group(t *testing.T, id int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if fields, lives := processStat(pid); lives && fields[2] == strconv.Itoa(id) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// The job belongs to the next master when the lease has ended, so its process no longer
// writes the job file.
func TestAJobEndsItselfWithTheLease(t *testing.T) {
	for name, script := range map[string]string{
		"its command ends when it is told": "sleep 300",
		"its command has to be killed":     `trap "" TERM; while :; do sleep 1; done`,
		"its command has children":         "sleep 300 & sleep 301 & wait",
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			lease := r.lease()
			command, livelock := r.command(script)
			require.NoError(t, lease.Renew(persistence.SinceBoot()))
			require.Equal(t, "exit status 4", expect[*messages.ProcessGone](r).Text)
			require.False(t, r.status().Final(), "it is another's to end")
			require.Empty(t, group(t, command))
			require.NoFileExists(t, livelock)
		})
	}
}

// The machine was suspended: the fence of the next master is over, and the next jobs may
// already run.
func TestAJobWhoseLeaseIsOverForLongIsNotWarned(t *testing.T) {
	for name, c := range map[string]struct {
		over   time.Duration
		warned bool
	}{"just now": {0, true}, "for longer than the fence": {jobproc.Fence, false}} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, jobProgram)
			lease := r.lease()
			warned, ready := filepath.Join(r.dir, "warned"), filepath.Join(r.dir, "ready")
			command, _ := r.command(`trap ": > ` + warned + `; exit" TERM; : > ` + ready + `; sleep 300 & wait`)
			require.Eventually(t, func() bool {
				_, err := os.Stat(ready)
				return err == nil
			}, 30*time.Second, time.Millisecond, "the trap is set")
			require.NoError(t, lease.Renew(persistence.SinceBoot()-c.over))
			require.Equal(t, "exit status 4", expect[*messages.ProcessGone](r).Text)
			require.Empty(t, group(t, command))
			_, err := os.Stat(warned)
			require.Equal(t, c.warned, err == nil)
		})
	}
}

// A job continues while its lease is renewed in time.
func TestAJobGoesOnWhileTheLeaseIsRenewed(t *testing.T) {
	r := newFixture(t, jobProgram)
	lease := r.lease()
	door := filepath.Join(r.dir, "go")
	require.NoError(t, unix.Mkfifo(door, 0o600))
	r.command("read word < " + door)
	for range 3 {
		require.NoError(t, lease.Renew(persistence.SinceBoot()+time.Hour))
	}
	require.NoError(t, os.WriteFile(door, []byte("word\n"), 0o600))
	require.Equal(t, "exit status 0", expect[*messages.ProcessGone](r).Text)
	require.Equal(t, job.Success, r.status())
}

// The process gets its permission after the end of the lease, and does not begin.
func TestAJobWithoutALeaseDoesNotBegin(t *testing.T) {
	r := newFixture(t, jobProgram)
	require.NoError(t, r.lease().Renew(0))
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	r.file(7, named.Livelock, named.Pid)
	r.port.Confirm(1, []byte(`[null]`))
	expect[*messages.ProcessConfirmed](r)
	gone := expect[*messages.ProcessGone](r)
	require.Equal(t, "exit status 4", gone.Text)
	require.True(t, gone.NeverActed)
	require.Equal(t, job.Queued, r.status())
	require.FileExists(t, named.Livelock, "it proves that the job has not begun")
}

// The daemon decides whether a process needs the lease, not the existence of the file. A
// process that needs the lease and finds no file does not accept its permission.
func TestTheDaemonSaysWhetherAJobNeedsTheLease(t *testing.T) {
	for _, c := range []struct {
		permission     string
		file, confirms bool
	}{
		{jobproc.LeaseRequired, true, true},
		{jobproc.LeaseRequired, false, false},
		{jobproc.LeaseNotRequired, false, true},
		{"", false, true}, // a daemon of an older version
		{"a newer version's word", false, false},
	} {
		t.Run(fmt.Sprintf("%q, file %v", c.permission, c.file), func(t *testing.T) {
			r := newFixture(t, jobProgram)
			if c.file {
				r.lease()
			}
			r.port.config.Permission = c.permission
			r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
			named := expect[*messages.ProcessNamed](r)
			r.file(7, named.Livelock, named.Pid)
			r.port.Confirm(1, []byte(`[null]`))
			if c.confirms {
				expect[*messages.ProcessConfirmed](r)
				require.Equal(t, "exit status 0", expect[*messages.ProcessGone](r).Text)
				require.Equal(t, job.Success, r.status())
				return
			}
			require.Contains(t, expect[*messages.HandshakeFailed](r).Text, "did not take its permission")
			expect[*messages.ProcessGone](r)
			require.Equal(t, job.Queued, r.status())
			require.FileExists(t, named.Livelock, "it proves that the job has not begun")
		})
	}
}

// An old lease file ends no job of a single node.
func TestAJobOfANodeThatIsAloneNeedsNoLease(t *testing.T) {
	r := newFixture(t, jobProgram)
	require.NoError(t, r.lease().Renew(0))
	r.port.config.Permission = jobproc.LeaseNotRequired
	r.port.Start(1, jobs.Job{ID: 7}, r.receiver)
	named := expect[*messages.ProcessNamed](r)
	r.file(7, named.Livelock, named.Pid)
	r.port.Confirm(1, []byte(`[null]`))
	expect[*messages.ProcessConfirmed](r)
	require.Equal(t, "exit status 0", expect[*messages.ProcessGone](r).Text)
	require.Equal(t, job.Success, r.status())
}

// restarted is the port of a later daemon on the same directories.
func (r *fixture) restarted() *Processes { return New(r.port.config) }

func TestKillAllEndsJobsAndWhatTheyRun(t *testing.T) {
	r := newFixture(t, jobProgram)
	require.Empty(t, r.restarted().RunningJobs())
	command, livelock := r.command(`trap "" TERM; while :; do sleep 1; done`)
	require.Equal(t, []int64{7}, r.restarted().RunningJobs())
	r.restarted().KillAll()
	require.Empty(t, r.restarted().RunningJobs())
	require.NoFileExists(t, livelock)
	require.Empty(t, group(t, command))
	require.Equal(t, "ended by SIGKILL", expect[*messages.ProcessGone](r).Text)
	require.False(t, r.status().Final())
	r.restarted().KillAll() // no process is left
}

// A process without the marker is found by the session of the process that the lock file
// names.
func TestKillAllKillsWhatHasDroppedItsEnvironment(t *testing.T) {
	r := newFixture(t, jobProgram)
	leader := exec.Command("sh", "-c", "env -i sleep 300 & echo $!; exec >&-; wait")
	leader.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := leader.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, leader.Start())
	t.Cleanup(func() { _ = leader.Process.Kill(); _ = leader.Wait() })
	var left int
	_, err = fmt.Fscan(out, &left)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Kill(left, unix.SIGKILL) })
	self, err := reaper.Self()
	require.NoError(t, err)
	fields, _ := processStat(leader.Process.Pid)
	began, err := strconv.ParseUint(fields[19], 10, 64)
	require.NoError(t, err)
	livelock := filepath.Join(persistence.LivelockDir(r.runDir()), fmt.Sprintf("%s_1_%d_3", paths.JobLivelockNameStart(7), leader.Process.Pid))
	ownerInfo := reaper.Leader{Boot: self.Boot, PID: leader.Process.Pid, StartTime: began}
	require.NoError(t, os.WriteFile(livelock, ownerInfo.Encode(), 0o600))
	require.NoError(t, leader.Process.Kill())
	_, _ = leader.Process.Wait()
	r.port.KillAll()
	_, lives := processStat(left)
	require.False(t, lives)
	require.NoFileExists(t, livelock)
}

func TestKillAllKillsOrphansOfADeadJob(t *testing.T) {
	r := newFixture(t, jobProgram)
	livelock := filepath.Join(persistence.LivelockDir(r.runDir()), paths.JobLivelockNameStart(7)+"_1_999999999_3")
	require.NoError(t, os.WriteFile(livelock, nil, 0o600))
	orphans := exec.Command("sleep", "300")
	orphans.Env = []string{reaper.EnvName + "=" + reaper.EnvValue(livelock)}
	other := exec.Command("sleep", "300")
	for _, c := range []*exec.Cmd{orphans, other} {
		require.NoError(t, c.Start())
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	r.port.KillAll()
	_, lives := processStat(orphans.Process.Pid)
	require.False(t, lives)
	_, lives = processStat(other.Process.Pid)
	require.True(t, lives)
	require.NoFileExists(t, livelock)
}

// A process that is not started as a job process is not killed, whatever its lock file is
// named. Other lock files do not belong to job processes.
func TestKillAllSparesOtherProcesses(t *testing.T) {
	r := newFixture(t, jobProgram)
	dir := persistence.LivelockDir(r.runDir())
	held, err := persistence.CreateLivelock(dir, paths.JobLivelockNameStart(9), ownership.Rules{}) // by this process
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Release() })
	daemon, err := persistence.CreateLivelock(dir, "daemon", ownership.Rules{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = daemon.Release() })
	odd := filepath.Join(dir, "job_x_1_2_3")
	require.NoError(t, os.WriteFile(odd, nil, 0o600))
	r.port.KillAll()
	require.FileExists(t, daemon.Path())
	require.FileExists(t, odd)
}
