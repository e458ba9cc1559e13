package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/edge/luxiclient"
)

// userDaemon starts the daemon of the user nobody, with its home and runtime directories below the
// daemon's root.
func userDaemon(t *testing.T) (d *daemon, start func()) {
	d = newDaemon(t)
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: only root can start the daemon of another user")
	}
	const nobody = 65534
	require.NoError(t, os.Chmod(d.root, 0o755))
	for _, dir := range []string{"home", "runtime", "programs"} {
		require.NoError(t, os.Mkdir(d.path(dir), 0o700))
		require.NoError(t, os.Chown(d.path(dir), nobody, nobody))
	}
	for _, program := range []string{"lockstepd", "lockstep-job"} {
		require.NoError(t, exec.Command("cp", filepath.Join(programs, program), d.path("programs")).Run())
	}
	return d, func() {
		t.Helper()
		ready := d.launchCommand(&exec.Cmd{Path: d.path("programs", "lockstepd"), Args: []string{"lockstepd"}, Dir: "/",
			Env:         []string{"HOME=" + d.path("home"), "XDG_RUNTIME_DIR=" + d.path("runtime"), "PATH=" + os.Getenv("PATH")},
			SysProcAttr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}})
		d.awaitReady(ready)
	}
}

// A user runs jobs without root and without a flag. The queue, the logs and the lock files outlive
// the runtime directory, which a logout removes.
func TestTheDaemonOfAUser(t *testing.T) {
	t.Parallel()
	d, start := userDaemon(t)
	start()
	state := d.path("home", ".local", "state", "lockstep")
	run := func() {
		t.Helper()
		l, err := luxiclient.Dial(context.Background(), d.path("runtime", "lockstep", "ganeti-query"), luxiclient.Options{AnswerTimeout: patience})
		require.NoError(t, err)
		defer l.Close()
		c := &client{t, l}
		require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	}
	run()
	require.FileExists(t, filepath.Join(state, "lib", "queue", "job-1"))
	require.DirExists(t, filepath.Join(state, "run", "livelocks"))
	require.FileExists(t, filepath.Join(state, "log", "jobs.log"))
	require.Empty(t, listeningPorts(t, d.cmd.Process.Pid))

	d.kill()
	require.NoError(t, os.RemoveAll(d.path("runtime", "lockstep")))
	start()
	run()
}

// listeningPorts returns the lines of TCP and UDP sockets of a process that accept from others.
func listeningPorts(t *testing.T, pid int) (lines []string) {
	t.Helper()
	descriptors, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	require.NoError(t, err)
	require.NotEmpty(t, descriptors)
	inodes := map[string]bool{}
	for _, path := range descriptors {
		target, _ := os.Readlink(path) // it may be closed by now
		if found := regexp.MustCompile(`^socket:\[(\d+)\]$`).FindStringSubmatch(target); found != nil {
			inodes[found[1]] = true
		}
	}
	require.NotEmpty(t, inodes)
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/net/" + table)
		require.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			const inode = 9
			if fields := strings.Fields(line); len(fields) > inode && inodes[fields[inode]] {
				lines = append(lines, table+": "+line)
			}
		}
	}
	return lines
}
