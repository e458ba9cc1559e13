package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
)

var (
	chaosJobs = flag.Int("chaos.jobs", 200, "jobs of the chaos test")
	chaosSeed = flag.Uint64("chaos.seed", 1, "seed of the chaos test; 0: a new one")
)

// The test kills the daemon and job processes at random, and starts second daemons beside the
// running daemon. Every accepted job must end in one final status, its command must run at
// most once and never beside another command with the same lock, and no process or file may be
// left over. The test fails if lockDir in persistence locks nothing, without LockRun, and, in
// most runs, without killOrphans or readLeader: see docs/simulation.md.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test ./cmd/lockstepd -run Chaos -chaos.seed=%d -chaos.jobs=%d", seed, *chaosJobs)
	c := &chaos{daemon: newDaemon(t), random: rand.New(rand.NewPCG(seed, 0)), accepted: map[int64]bool{}}
	c.start()
	for len(c.accepted) < *chaosJobs {
		switch dice := c.random.IntN(100); {
		case dice < 70:
			c.submitSome()
		case dice < 76:
			c.kill()
			c.start()
		case dice < 82: // no daemon sees the jobs die
			c.kill()
			for range 10 {
				c.killAJob()
			}
			c.start()
		case dice < 90:
			c.killAJob()
		case dice < 97:
			c.forceEnd()
		case dice < 98:
			c.startASecond()
		default:
			require.Equal(t, 0, c.stop())
			c.start()
		}
	}
	c.awaitEnds()
	c.check()
}

type chaos struct {
	*daemon
	random   *rand.Rand
	accepted map[int64]bool // acknowledged to a client
}

// submitSome submits a few jobs; the daemon may be killed before it answers.
func (c *chaos) submitSome() {
	var list [][]op
	for range 1 + c.random.IntN(4) {
		var ops []op
		for k := range 1 + c.random.IntN(3) {
			if c.random.IntN(3) > 0 {
				ops = append(ops, command("sh", "-c", c.work(k, "0")))
				continue
			}
			ops = append(ops, c.locked(k))
		}
		list = append(list, ops)
	}
	client, err := luxiclient.Dial(context.Background(), c.path("run", "socket", "ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(c.t, err)
	defer client.Close()
	interrupted := make(chan struct{})
	killed := c.random.IntN(10) == 0
	if killed {
		process := c.cmd.Process
		time.AfterFunc(time.Duration(c.random.IntN(3000))*time.Microsecond, func() {
			_ = process.Kill()
			close(interrupted)
		})
	} else {
		close(interrupted)
	}
	var answers [][2]any
	err = client.Call(context.Background(), "SubmitManyJobs", []any{list}, &answers)
	<-interrupted
	if killed {
		c.kill()
		c.start()
	} else {
		require.NoError(c.t, err)
	}
	if err == nil {
		for _, answer := range answers {
			c.accepted[int64(answer[1].(float64))] = true
		}
	}
}

// work is a script that leaves a trace of the kth opcode of its job.
func (c *chaos) work(k int, tenths string) string {
	return fmt.Sprintf("echo ran >> %s/ran-$LOCKSTEP_JOB_ID-%d; sleep 0.%s%d", c.root, k, tenths, c.random.IntN(10))
}

// locked is a command with a lock. A kernel lock shows whether the lock manager has granted
// the lock twice. Some commands leave their process group, and their session or their
// environment, and some of these time out before they end.
func (c *chaos) locked(k int) op {
	node := fmt.Sprintf("node/n%d", c.random.IntN(3))
	argv := []string{"flock", "--nonblock", "--conflict-exit-code", "99", filepath.Join(c.root, filepath.Base(node)), "sh", "-c"}
	var hide string
	switch c.random.IntN(4) {
	case 0:
		hide = `exec setsid --wait "$@" > /dev/null 2>&1`
	case 1: // with -m each command in the background has a process group
		hide = `env -i PATH="$PATH" LOCKSTEP_JOB_ID="$LOCKSTEP_JOB_ID" "$@" > /dev/null 2>&1 & wait $!`
	default:
		return command(append(argv, c.work(k, "0"))...).with("locks", [][2]string{{node, "exclusive"}})
	}
	// A reader that waits for the output of such a command waits until the command ends.
	locked := command(append(append([]string{"bash", "-mc", hide, "bash"}, argv...), c.work(k, "6"))...)
	if c.random.IntN(3) == 0 {
		locked["timeout"] = 0.1
	}
	return locked.with("locks", [][2]string{{node, "exclusive"}})
}

// forceEnd requests the forced end of a living job, and does not wait for the answer.
func (c *chaos) forceEnd() {
	id, _, ok := c.livingJob()
	if !ok {
		return
	}
	client, err := luxiclient.Dial(context.Background(), c.path("run", "socket", "ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = client.Close() })
	go func() { _ = client.Call(context.Background(), "CancelJob", []any{id, true}, nil) }()
}

// killAJob kills one living job process.
func (c *chaos) killAJob() {
	_, pid, ok := c.livingJob()
	if !ok {
		return
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && strings.Contains(string(cmdline), c.root) { // the pid was not reused
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// livingJob is some job that has a process according to the lock files.
func (c *chaos) livingJob() (id, pid int, ok bool) {
	locks, err := filepath.Glob(c.path("run", "livelocks", "job_*"))
	require.NoError(c.t, err)
	locks = slices.DeleteFunc(locks, func(path string) bool { return strings.HasSuffix(path, ".tmp") })
	if len(locks) == 0 {
		return 0, 0, false
	}
	var secs int
	_, err = fmt.Sscanf(filepath.Base(locks[c.random.IntN(len(locks))]), "job_%d_%d_%d_", &id, &secs, &pid)
	require.NoError(c.t, err)
	return id, pid, true
}

// startASecond starts a second daemon on the same queue, or on the same run directory, or on the
// queue after its lock file was removed. The daemon must not start.
func (c *chaos) startASecond() {
	switch c.random.IntN(3) {
	case 0:
		c.refusesSecond("--run-dir", c.path("run2"))
	case 1:
		c.refusesSecond("--data-dir", c.path("other"))
	case 2:
		c.refusesWithoutLockFile()
		<-c.done // the first one stops when it notices
		c.cmd = nil
		c.start()
	}
}

// awaitEnds waits until all jobs have ended.
func (c *chaos) awaitEnds() {
	client := c.dial()
	for _, id := range c.ids() {
		client.await(id)
	}
	// Jobs may exist whose submitter got no answer; they end too.
	require.Eventually(c.t, func() bool {
		var rows [][]string
		client.call("QueryJobs", &rows, nil, []string{"status"})
		return !slices.ContainsFunc(rows, func(row []string) bool {
			return !slices.Contains([]string{"success", "error", "canceled"}, row[0])
		})
	}, patience, 20*time.Millisecond)
	// A job process may have been killed while no daemon ran. The next start kills its orphans
	// and removes its files.
	require.Equal(c.t, 0, c.stop())
	c.start()
	require.Equal(c.t, 0, c.stop())
}

func (c *chaos) ids() []int64 {
	ids := make([]int64, 0, len(c.accepted))
	for id := range c.accepted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (c *chaos) check() {
	died := 0
	for _, id := range c.ids() {
		file := c.jobFile(id)
		require.NotContains(c.t, file, `"end_timestamp": null, "received_timestamp"`, "job %d has not ended", id)
		require.NotContains(c.t, file, `"exit_status": 99`, "job %d worked with a lock that another one had", id)
		if strings.Contains(file, "detected death") || strings.Contains(file, "failed to start") {
			died++
		}
	}
	c.t.Logf("%d jobs accepted, %d of them killed", len(c.accepted), died)
	traces, err := filepath.Glob(c.path("ran-*"))
	require.NoError(c.t, err)
	for _, trace := range traces {
		content, err := os.ReadFile(trace)
		require.NoError(c.t, err)
		// Empty: it was killed between opening the file and writing.
		require.Contains(c.t, []string{"ran\n", ""}, string(content), "%s: a command has run twice", filepath.Base(trace))
	}
	for _, pattern := range []string{"run/livelocks/*", "run/luxidmessages/*", "lib/queue/*.tmp", "lib/*.tmp"} {
		left, err := filepath.Glob(c.path(pattern))
		require.NoError(c.t, err)
		require.Empty(c.t, left, "left over")
	}
	require.Empty(c.t, c.running(), "left running")
}

// running lists the processes of the test's jobs that still run.
func (c *chaos) running() []string {
	var left []string
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(c.t, err)
	for _, path := range processes {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), c.root) {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}
