package main

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/paths"
)

// selfAccounts are the flags of Ganeti mode for the user and groups of this process.
func selfAccounts() []string {
	group := strconv.Itoa(os.Getegid())
	modules, err := filepath.Abs("testdata/ganeti")
	if err != nil {
		panic(err)
	}
	return []string{"--ganeti", "--ganeti-share", modules, "--ganeti-user", strconv.Itoa(os.Geteuid()), "--ganeti-confd-group", group, "--ganeti-daemons-group", group}
}

// ganetiData makes the data directory of a Ganeti node.
func ganetiData(t testing.TB, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "queue"), 0o750))
	first, err := config.New(config.Identity{ClusterName: "demo", ClusterUUID: "c", NodeName: "node1", NodeUUID: "n", NodeIP: "127.0.0.1", GroupUUID: "g", Now: 1})
	require.NoError(t, err)
	for name, content := range map[string]string{paths.ConfigPath: string(first.JSON()), paths.GanetiCertificatePath: "", paths.VersionPath: "1\n", paths.SerialPath: "0\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o640))
	}
}

// A daemon in Ganeti mode runs jobs, and its files and sockets have the owners and modes of that mode.
func TestGanetiMode(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	ganetiData(t, d.path("lib"))
	uid, gid := os.Geteuid(), os.Getegid()
	flags := selfAccounts()
	if uid == 0 {
		gid = 4712
		flags = append(flags, "--ganeti-confd-group", "4712", "--ganeti-daemons-group", "4712")
	} else {
		t.Log("NOT RUN: groups of which this process is no member need root")
	}
	require.Contains(t, d.refusesSecond("--log-level", "debug"), "start lockstepd with --ganeti")
	require.NoDirExists(t, d.path("run"))
	d.start(flags...)
	c := d.dial()
	require.Equal(t, "success", c.await(c.submit(command("true"))).Status)
	c.call("SetDrainFlag", nil, true)
	for name, mode := range map[string]os.FileMode{
		"lib/queue/serial": 0o640, "lib/queue/job-1": 0o640, "lib/queue/drain": 0o640, "lib/queue/lock": 0o640, "lib/locks.data": 0o600, "lib/locks.journal": 0o600,
		"run": 0o775, "run/socket": 0o770, "run/livelocks": 0o750, "run/luxidmessages": 0o750, "log": 0o770,
		"run/socket/ganeti-query": 0o660, "run/socket/ganeti-wconfd": 0o600,
	} {
		info, err := os.Lstat(d.path(name))
		require.NoError(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		require.Equal(t, mode, info.Mode().Perm(), name)
		require.Equal(t, []int{uid, gid}, []int{int(stat.Uid), int(stat.Gid)}, name)
	}
	for name, mode := range map[string]os.FileMode{"log/jobs.log": 0o600, "run/socket/admin": 0o600} {
		info, err := os.Lstat(d.path(name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), name)
	}
	require.NoFileExists(t, d.path("run", "lease"))
	require.NoDirExists(t, d.path("lib", "raft"))
	require.NoDirExists(t, d.path("lib", "rapi"))
	require.Zero(t, d.stop())
}
