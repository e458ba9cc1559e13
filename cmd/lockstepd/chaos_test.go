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

	"lockstep/actors/luxi/wire"
)

var (
	chaosJobs = flag.Int("chaos.jobs", 200, "jobs of the chaos test")
	chaosSeed = flag.Uint64("chaos.seed", 0, "seed of the chaos test; 0: a new one")
)

// Daemon and job processes are killed all the time, by chance. Whatever happens,
// every accepted job ends in one final status, its command has run at most once,
// and never beside another one with the same lock, and nothing is left over.
func TestChaos(t *testing.T) {
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
		case dice < 80:
			c.kill()
			c.start()
		case dice < 98:
			c.killAJob()
		default:
			require.Equal(t, 0, c.stop())
			c.start()
		}
	}
	c.settle()
	c.check()
}

type chaos struct {
	*daemon
	random   *rand.Rand
	accepted map[int64]bool // that a client was told of
}

// submitSome submits a few jobs; the daemon may be killed before it answers.
func (c *chaos) submitSome() {
	var list [][]op
	for range 1 + c.random.IntN(4) {
		var ops []op
		for k := range 1 + c.random.IntN(3) {
			ran := fmt.Sprintf("echo ran >> %s/ran-$LOCKSTEP_JOB_ID-%d; sleep 0.0%d", c.root, k, c.random.IntN(10))
			if c.random.IntN(3) > 0 {
				ops = append(ops, command("sh", "-c", ran))
				continue
			}
			// The kernel says whether the lock manager has given one lock to two.
			node := fmt.Sprintf("node/n%d", c.random.IntN(3))
			locked := command("flock", "--nonblock", "--conflict-exit-code", "99", filepath.Join(c.root, filepath.Base(node)), "sh", "-c", ran)
			locked["locks"] = [][2]string{{node, "exclusive"}}
			ops = append(ops, locked)
		}
		list = append(list, ops)
	}
	client, err := wire.Dial(context.Background(), c.path("run", "socket", "ganeti-query"), wire.Options{AnswerTimeout: patience})
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

// killAJob kills one of the job processes that live.
func (c *chaos) killAJob() {
	locks, err := filepath.Glob(c.path("run", "livelocks", "job_*"))
	require.NoError(c.t, err)
	if len(locks) == 0 {
		return
	}
	var id, secs, pid int
	name := filepath.Base(locks[c.random.IntN(len(locks))])
	_, err = fmt.Sscanf(name, "job_%d_%d_%d_", &id, &secs, &pid)
	require.NoError(c.t, err)
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err == nil && strings.Contains(string(cmdline), c.root) { // it is still that one
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// settle waits until everything has ended.
func (c *chaos) settle() {
	client := c.dial()
	for _, id := range c.ids() {
		client.await(id)
	}
	// Jobs whose submitter was not told may exist as well; they end too.
	require.Eventually(c.t, func() bool {
		var rows [][]string
		client.call("QueryJobs", &rows, nil, []string{"status"})
		return !slices.ContainsFunc(rows, func(row []string) bool {
			return !slices.Contains([]string{"success", "error", "canceled"}, row[0])
		})
	}, patience, 20*time.Millisecond)
	// Once more: what a process that was killed between two daemons has left is
	// removed by the next.
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

// running lists what still runs of the test's jobs.
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
