package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// bothWays runs a test with forked and with executed processes of Ganeti's job program, in parallel with other tests.
func bothWays(t *testing.T, test func(*testing.T, *ganetiQueue)) {
	t.Parallel()
	t.Run("forked", func(t *testing.T) {
		g := newGanetiQueue(t)
		g.awaitForkServer(1)
		test(t, g)
	})
	t.Run("executed", func(t *testing.T) { test(t, newGanetiQueue(t, "--fork-server=false")) })
}

var forkServerReady = regexp.MustCompile(`the fork server is ready.*pid=(\d+)`)

// forkServers are the pids of all fork servers that have been ready, the newest last.
func (g *ganetiQueue) forkServers() (pids []int) {
	for _, found := range forkServerReady.FindAllStringSubmatch(g.logged(), -1) {
		pid, err := strconv.Atoi(found[1])
		require.NoError(g.t, err)
		pids = append(pids, pid)
	}
	return pids
}

// awaitForkServer waits until that many fork servers have been ready, and returns the newest.
func (g *ganetiQueue) awaitForkServer(count int) (pid int) {
	g.t.Helper()
	require.Eventually(g.t, func() bool { return len(g.forkServers()) >= count }, patience, time.Millisecond)
	servers := g.forkServers()
	return servers[len(servers)-1]
}

// parentOf returns the parent of a process, 0 if there is no such process.
func parentOf(pid int) (parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, err = fmt.Sscanf(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " %1s %d", new(string), &parent)
	if err != nil {
		return 0
	}
	return parent
}

func (g *ganetiQueue) write(name, text string) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(g.path("lib", name+".new"), []byte(text), 0o600))
	require.NoError(g.t, os.Rename(g.path("lib", name+".new"), g.path("lib", name)))
}

// begun is the number of times that an opcode of a job has begun.
func (g *ganetiQueue) begun(id int64, op int) int {
	content, err := os.ReadFile(g.path("lib", "ran"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(g.t, err)
	}
	return strings.Count("\n"+string(content), fmt.Sprintf("\n%d %d\n", id, op))
}

// The steps of a start by fork.
const (
	stepAsked    = "asked"       // the fork server has not taken the request
	stepMade     = "made"        // the child exists, and the fork server has not answered
	stepSpawned  = "spawned"     // the fork server has answered, and the program runs
	stepLocked   = "locked"      // the lock file exists, its name is not sent
	stepNamed    = "named"       // the name is sent
	stepPermit   = "permitted"   // the permission has arrived
	stepRequest  = "requested"   // the launch spec is requested
	stepHanded   = "handed over" // the launch spec has arrived: the process may act, and has not made the job waiting
	stepRunning  = "running"     // the opcode has begun
	stepEnded    = "ended"       // the end is written, and the process has not exited
	theServer    = "server"
	theProcess   = "process"
	theDaemon    = "daemon"
	deathOfAJob  = "detected death"
	statusOfGood = "success"
)

var forkSteps = []string{stepAsked, stepMade, stepSpawned, stepLocked, stepNamed, stepPermit, stepRequest, stepHanded, stepRunning, stepEnded}

// The fork server, the process of a job and the daemon, and each two of them, are killed at each step of a start. The job runs once,
// and fails only if its process is killed while it runs; nothing is left of it.
func TestKillsAtEachStepOfAFork(t *testing.T) {
	t.Parallel()
	for _, victims := range [][]string{{theServer}, {theProcess}, {theDaemon}, {theServer, theProcess}, {theServer, theDaemon}, {theProcess, theDaemon}} {
		t.Run(strings.Join(victims, " and "), func(t *testing.T) {
			t.Parallel()
			g := newGanetiQueue(t)
			g.write("go-all", "")
			k := &forkKills{ganetiQueue: g, victims: map[string]bool{}}
			for _, victim := range victims {
				k.victims[victim] = true
			}
			for i, step := range forkSteps {
				if i > 0 {
					g.kill() // a fork server that was not trusted would make a pause
					g.mu.Lock()
					g.log.Reset()
					g.mu.Unlock()
					g.start(selfAccounts()...)
				}
				k.at(step, int64(i+1))
			}
			g.leavesNoLock()
		})
	}
}

type forkKills struct {
	*ganetiQueue
	victims map[string]bool
}

// at submits a job, and kills at the step.
func (k *forkKills) at(step string, id int64) {
	k.t.Helper()
	server := k.awaitForkServer(1)
	c := k.dial()
	stop := fmt.Sprintf("stop-%d", id)
	switch step {
	case stepAsked:
		require.NoError(k.t, syscall.Kill(server, syscall.SIGSTOP))
	case stepMade:
		k.write("hold-answer", "")
	default:
		k.write(stop, step)
	}
	require.Equal(k.t, id, c.submit(delayOp()))
	process := k.processAt(step, id, server)
	for _, victim := range []struct {
		name string
		pid  int
	}{{theServer, server}, {theProcess, process}, {theDaemon, k.cmd.Process.Pid}} {
		if k.victims[victim.name] && victim.pid != 0 {
			require.NoError(k.t, syscall.Kill(victim.pid, syscall.SIGKILL), victim.name)
		}
	}
	_ = syscall.Kill(server, syscall.SIGCONT)
	for _, name := range []string{"hold-answer", stop} {
		_ = os.Remove(k.path("lib", name))
	}
	if k.victims[theDaemon] {
		k.kill()
		k.start(selfAccounts()...)
	}
	k.check(step, id, process)
}

// processAt returns the process of a job that has reached the step; 0: there is none yet.
func (k *forkKills) processAt(step string, id int64, server int) (pid int) {
	k.t.Helper()
	switch step {
	case stepAsked:
		return 0
	case stepMade:
		require.Eventually(k.t, func() bool {
			children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", server, server))
			_, err := fmt.Sscan(string(children), &pid)
			return err == nil
		}, patience, time.Millisecond)
	default:
		stopped := k.path("lib", fmt.Sprintf("stopped-%d", id))
		k.awaitStep(stopped)
		content, err := os.ReadFile(stopped)
		require.NoError(k.t, err)
		pid, err = strconv.Atoi(string(content))
		require.NoError(k.t, err)
	}
	require.Equal(k.t, server, parentOf(pid), "the process is forked")
	return pid
}

func (k *forkKills) check(step string, id int64, process int) {
	k.t.Helper()
	j := k.dial().await(id)
	message := fmt.Sprintf("%s: %s: %s", step, j.Status, j.Results[0])
	require.Equal(k.t, 1, k.begun(id, 0), message)
	if k.victims[theProcess] && step == stepRunning {
		require.Equal(k.t, "error", j.Status, message)
		require.Contains(k.t, string(j.Results[0]), deathOfAJob, message)
	} else {
		require.Equal(k.t, statusOfGood, j.Status, message)
	}
	if process != 0 {
		require.Eventually(k.t, func() bool { return isGone(strconv.Itoa(process)) }, patience, time.Millisecond, message)
	}
}

// leavesNoLock checks that a start of the daemon removes the lock files of processes that have ended without a daemon, when they are
// older than a minute. The daemon is stopped then.
func (g *ganetiQueue) leavesNoLock() {
	g.t.Helper()
	require.Equal(g.t, 0, g.stop())
	list := func() []string {
		found, err := filepath.Glob(g.path("run", "livelocks", "job_*"))
		require.NoError(g.t, err)
		return found
	}
	before := time.Now().Add(-time.Hour)
	for _, path := range list() {
		require.NoError(g.t, os.Chtimes(path, before, before))
	}
	g.start(selfAccounts()...)
	require.Equal(g.t, 0, g.stop())
	require.Empty(g.t, list())
}

// Many jobs are forked while processes, fork servers and once the daemon are killed. Each job ends, no opcode begins twice, and only
// the jobs of processes that are killed while they run fail.
func TestManyForksWithKills(t *testing.T) {
	t.Parallel()
	g := newGanetiQueue(t)
	g.awaitForkServer(1)
	g.write("go-all", "")
	total := int64(longtest.Times(1000))
	isKilled := func(id int64) bool { return id%100 == 7 }
	var list [][]op
	for id := int64(1); id <= total; id++ {
		if isKilled(id) {
			g.write(fmt.Sprintf("stop-%d", id), stepRunning)
		}
		list = append(list, []op{delayOp()})
	}
	c := g.dial()
	c.call("SubmitManyJobs", nil, list)
	forked := 0
	for id := int64(1); id <= total; id++ {
		if isKilled(id) {
			g.awaitStep(g.path("lib", fmt.Sprintf("stopped-%d", id)))
			switch { // the daemon and fork servers die while the process waits
			case id == 7+total/200*100:
				g.kill()
				g.start(selfAccounts()...)
				c = g.dial()
			case id%300 == 7:
				servers := g.forkServers()
				_ = syscall.Kill(servers[len(servers)-1], syscall.SIGKILL)
			}
			pid := g.processOf(id)
			if parent := parentOf(pid); parent != os.Getpid() && parent > 1 {
				forked++
			}
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			j := c.await(id)
			require.Equal(t, "error", j.Status)
			require.Contains(t, string(j.Results[0]), deathOfAJob)
			require.Equal(t, 1, g.begun(id, 0))
			continue
		}
		j := c.await(id)
		require.Equal(t, statusOfGood, j.Status, "job %d: %s", id, j.Results)
	}
	ran, err := os.ReadFile(g.path("lib", "ran"))
	require.NoError(t, err)
	require.Equal(t, int(total), strings.Count(string(ran), "\n"), "each opcode has begun once")
	require.NotZero(t, forked)
	g.leavesNoLock()
}

// Ganeti's files are replaced, as by an upgrade, while a job runs. It goes on with what it has loaded; later jobs run the new
// program, first executed and then forked by another fork server.
func TestAnUpgradeOfGanetiUnderAForkServer(t *testing.T) {
	t.Parallel()
	g := newGanetiQueue(t)
	require.Equal(t, 0, g.stop())
	share := g.path("share")
	require.NoError(t, os.CopyFS(share, os.DirFS("testdata/ganeti")))
	g.mu.Lock()
	g.log.Reset()
	g.mu.Unlock()
	g.start(append(selfAccounts(), "--ganeti-share", share)...)
	first := g.awaitForkServer(1)
	c := g.dial()
	text := func(id int64) string {
		c.awaitOpStatus(id, 0, "running")
		_, log := c.awaitChange(id, []string{"status"}, []string{"running"}, 0)
		return string(log[0][3])
	}
	before := c.submit(delayOp())
	require.Contains(t, text(before), "secret null")
	require.Equal(t, first, parentOf(g.processOf(before)))

	script := filepath.Join(share, "ganeti", "jqueue", "exec.py")
	content, err := os.ReadFile(script)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(script+".dpkg-new", []byte(strings.Replace(string(content), `"secret %s,`, `"upgraded: secret %s,`, 1)), 0o600))
	require.NoError(t, os.Rename(script+".dpkg-new", script))

	executed := c.submit(delayOp())
	require.Contains(t, text(executed), "upgraded: secret null")
	require.Equal(t, g.cmd.Process.Pid, parentOf(g.processOf(executed)))
	second := g.awaitForkServer(2)
	forked := c.submit(delayOp())
	require.Contains(t, text(forked), "upgraded: secret null")
	require.Equal(t, second, parentOf(g.processOf(forked)))
	require.Equal(t, first, parentOf(g.processOf(before)), "the former fork server has its children until their ends")
	for _, id := range []int64{before, executed, forked} {
		g.permit(id, 0, "")
		require.Equal(t, statusOfGood, c.await(id).Status)
	}
	require.Eventually(t, func() bool { return isGone(strconv.Itoa(first)) }, patience, time.Millisecond)
}
