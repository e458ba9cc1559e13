package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/ownership"
	"lockstep/persistence"
)

// crashed makes the data directory of a daemon that was killed after so many changes of the configuration.
func crashed(t *testing.T, changes int) (dataDir string) {
	dataDir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dataDir, "queue"), 0o750))
	c, err := config.New(config.Identity{ClusterName: "c0", ClusterUUID: "cu", NodeName: "n", NodeUUID: "nu", NodeIP: "192.0.2.1", GroupUUID: "gu", Now: 1.5})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "config.data"), c.JSON(), 0o640))
	state := journal.State{Config: c}
	var lines []byte
	for i := range changes {
		next := state
		e := state.Config.Edit()
		cluster := state.Config.Cluster.Value
		cluster.Name = fmt.Sprintf("c%d", i+1)
		e.SetCluster(cluster)
		var touched []model.Touched
		next.Config, touched = e.Commit(2)
		line, err := journal.Encode(journal.NewRecord(uint64(i+1), state, next, touched, 2, journal.Author{Method: "updateCluster"}), true)
		require.NoError(t, err)
		lines, state = append(lines, line.Bytes...), next
	}
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, "config.journal"), lines, 0o600))
	return dataDir
}

func clusterName(t *testing.T, dataDir string) string {
	raw, err := os.ReadFile(filepath.Join(dataDir, "config.data"))
	require.NoError(t, err)
	c, err := model.Decode(raw)
	require.NoError(t, err)
	return c.Cluster.Value.Name
}

func TestConfigFold(t *testing.T) {
	dir := crashed(t, 3)
	require.Equal(t, "config.data has serial number 4; 3 changes were written to it.\n", offline(t, "config fold --data-dir "+dir, 0))
	require.Equal(t, "c3", clusterName(t, dir))
	require.NoFileExists(t, filepath.Join(dir, "config.journal"))
	require.JSONEq(t, `{"serial":4,"changes":0}`, offline(t, "config fold --json --data-dir "+dir, 0))
}

// In the data directory of a Ganeti node the files get the owners and modes of Ganeti mode. The history has the changes.
func TestConfigFoldOfAGanetiNode(t *testing.T) {
	dir := crashed(t, 3)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.pem"), nil, 0o400))
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 4711, 4712
	} else {
		t.Log("NOT RUN: files of other users need root")
	}
	out := offline(t, fmt.Sprintf("config fold --data-dir %s --ganeti-user no-such-user", dir), 1)
	require.Contains(t, out, `there is no user "no-such-user"`)
	offline(t, fmt.Sprintf("config fold --data-dir %s --ganeti-user %d --ganeti-confd-group %d --ganeti-daemons-group %d", dir, uid, gid, gid), 0)
	require.Equal(t, "c3", clusterName(t, dir))
	for name, mode := range map[string]os.FileMode{"config.data": 0o640, "tempres.data": 0o600, "config.extra": 0o600, "config.history": 0o600} {
		info, err := os.Lstat(filepath.Join(dir, name))
		require.NoError(t, err)
		stat := info.Sys().(*syscall.Stat_t)
		require.Equal(t, mode, info.Mode().Perm(), name)
		require.Equal(t, []int{uid, gid}, []int{int(stat.Uid), int(stat.Gid)}, name)
	}
	require.Equal(t, 3, strings.Count(offline(t, "config history --file "+filepath.Join(dir, "config.data"), 0), "updateCluster"))
}

func TestConfigFoldOfADamagedJournal(t *testing.T) {
	dir := crashed(t, 3)
	name := filepath.Join(dir, "config.journal")
	lines, err := os.ReadFile(name)
	require.NoError(t, err)
	lines[len(lines)/2] ^= 1
	require.NoError(t, os.WriteFile(name, lines, 0o600))
	out := offline(t, "config fold --data-dir "+dir, 1)
	require.Contains(t, out, "config.journal is damaged after serial number 2: line 2: the line is damaged.")
	require.Contains(t, out, "lockstep config fold --discard-rest --data-dir "+dir)
	require.Equal(t, "c0", clusterName(t, dir))
	require.Equal(t, "config.journal has changes that config.data does not have: it is now config.journal.unused-1.\n"+
		"config.data has serial number 2; 1 changes were written to it.\n", offline(t, "config fold --discard-rest --data-dir "+dir, 0))
	require.Equal(t, "c1", clusterName(t, dir))
}

func TestConfigFoldWhileADaemonRuns(t *testing.T) {
	dir := crashed(t, 1)
	lock, err := persistence.LockQueue(dir, ownership.Rules{})
	require.NoError(t, err)
	require.Contains(t, offline(t, "config fold --data-dir "+dir, 1), "stop the daemon first")
	require.Equal(t, "c0", clusterName(t, dir))
	require.NoError(t, lock.Release())
	require.Contains(t, offline(t, "config fold 1", 2), "config fold takes no arguments")
}

// ganeti-wconfd runs without ganeti-luxid too, and then nothing locks the queue.
func TestConfigFoldWhileGanetisWconfdRunsAlone(t *testing.T) {
	dir := crashed(t, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "server.pem"), nil, 0o400))
	command := fmt.Sprintf("config fold --data-dir %s --ganeti-user %d --ganeti-confd-group %d --ganeti-daemons-group %[3]d", dir, os.Geteuid(), os.Getegid())
	lock, err := persistence.LockData(dir)
	require.NoError(t, err)
	require.Contains(t, offline(t, command, 1), "stop ganeti-wconfd first")
	require.Equal(t, "c0", clusterName(t, dir))
	require.NoError(t, lock.Release())
	offline(t, command, 0)
	require.Equal(t, "c1", clusterName(t, dir))
}
