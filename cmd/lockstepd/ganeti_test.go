package main

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/config"
	"lockstep/core/ownership"
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

// Only root can give files to other users, and to groups that it is no member of.
func TestCheckAccounts(t *testing.T) {
	rules, err := ownership.Ganeti(ownership.Accounts{Daemon: "104", ConfdGroup: "111", DaemonsGroup: "112"}).Resolve(strconv.Atoi, strconv.Atoi)
	require.NoError(t, err)
	require.NoError(t, checkAccounts(rules, 0, nil))
	require.NoError(t, checkAccounts(rules, 104, []int{105, 111, 112}))
	require.ErrorContains(t, checkAccounts(rules, 1000, []int{111, 112}), "runs as user 1000, and its files must belong to user 104")
	require.ErrorContains(t, checkAccounts(rules, 104, []int{112}), "no member of group 111")
	require.NoError(t, checkAccounts(ownership.Rules{}, 1000, nil))
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

// A data directory belongs to Ganeti or to lockstep, and no daemon of the other one starts on it.
func TestSetUpsAreNotMixed(t *testing.T) {
	dir := t.TempDir()
	self, err := settings.Parse(append(selfAccounts(), "--data-dir", dir), io.Discard)
	require.NoError(t, err)
	own := settings.Config{DataDir: dir}
	require.NoError(t, checkSetUp(own))
	require.NoError(t, checkSetUp(settings.Config{DataDir: filepath.Join(dir, "absent")}))
	require.ErrorContains(t, checkSetUp(self), "server.pem: no such file or directory; every master candidate of Ganeti has this file")

	ganetiData(t, dir)
	require.NoError(t, checkSetUp(self))
	require.ErrorContains(t, checkSetUp(own), "is the data directory of a Ganeti node, because it has server.pem: start lockstepd with --ganeti")

	require.NoError(t, os.Remove(filepath.Join(dir, paths.ConfigPath)))
	require.ErrorContains(t, checkSetUp(self), "config.data: no such file")

	for _, left := range []string{raftDirName, memberMark} {
		path := filepath.Join(dir, left)
		require.NoError(t, os.Mkdir(path, 0o700))
		err := checkSetUp(self)
		require.ErrorContains(t, err, dir+" belongs to a cluster of lockstep, because it has "+left)
		require.ErrorContains(t, err, "move "+path+" aside")
		require.NoError(t, os.Remove(path))
	}
}

// A daemon in Ganeti mode runs jobs, and its files and sockets have the owners and modes of that mode.
func TestGanetiMode(t *testing.T) {
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
