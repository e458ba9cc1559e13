package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// As process 1 of a container the daemon leaves no zombies, learns how its jobs have ended,
// and handles the signals to stop and to read its files again.
func TestTheDaemonAsProcessOne(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	args := append([]string{"--pid", "--fork", "--mount-proc", filepath.Join(programs, "lockstepd")}, d.args()...)
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Logf("NOT TESTED: the daemon as process 1, which needs root and unshare: %v: %s", err, out)
		t.Skip("NOT RUN: it needs a namespace of processes, which root can make")
	}
	d.awaitReady(d.launchProgram("unshare", args...))
	unshare := d.cmd.Process.Pid
	children := childrenOf(unshare)
	require.Len(t, children, 1)
	one := children[0]
	t.Cleanup(func() { _ = syscall.Kill(one, syscall.SIGKILL) }) // this also ends all processes of the namespace

	c := d.dial()
	orphans := d.path("orphans")
	require.NoError(t, os.Mkdir(orphans, 0o700))
	const jobs = 30
	ids := c.submitMany(slices.Repeat([][]op{{command("sh", "-c", "setsid sh -c ': > "+orphans+"/began-$LOCKSTEP_JOB_ID; sleep 0.2; : > "+orphans+"/$LOCKSTEP_JOB_ID' & while [ ! -e "+orphans+"/began-$LOCKSTEP_JOB_ID ]; do sleep 0.01; done")}}, jobs))
	for _, id := range ids {
		require.Equal(t, "success", c.await(id).Status)
	}
	require.Equal(t, "error", c.await(c.submit(command("false"))).Status)
	require.Eventually(t, func() bool {
		ended, err := filepath.Glob(filepath.Join(orphans, "[0-9]*"))
		return err == nil && len(ended) == jobs && len(zombiesOf(one)) == 0
	}, patience, 10*time.Millisecond, "zombies are left")

	require.NoError(t, syscall.Kill(one, syscall.SIGHUP)) // the daemon continues
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	require.NoError(t, syscall.Kill(one, syscall.SIGTERM))
	select {
	case <-d.done:
	case <-time.After(patience):
		t.Fatal("the daemon does not stop")
	}
	require.Equal(t, 0, d.cmd.ProcessState.ExitCode())
	require.Contains(t, d.logged(), "stopping; running jobs continue")
	d.cmd = nil
}

// childrenOf are the child processes of a process, including zombies.
func childrenOf(pid int) (pids []int) {
	eachChild(pid, func(child int, _ string) { pids = append(pids, child) })
	return pids
}

func zombiesOf(pid int) (pids []int) {
	eachChild(pid, func(child int, state string) {
		if state == "Z" {
			pids = append(pids, child)
		}
	})
	// The first process starts no other child than the daemon.
	for _, child := range childrenOf(pid) {
		eachChild(child, func(grandchild int, state string) {
			if state == "Z" {
				pids = append(pids, grandchild)
			}
		})
	}
	return pids
}

func eachChild(pid int, tell func(child int, state string)) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(content[strings.LastIndexByte(string(content), ')')+1:]))
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && fields[1] == fmt.Sprint(pid) {
			tell(child, fields[0])
		}
	}
}
