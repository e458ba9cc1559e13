package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/answer"
	"lockstep/core/config/history"
	"lockstep/core/paths"
	"lockstep/core/wire"
	"lockstep/edge/luxiclient"
)

// wconfd is a connection to the socket for locks and the configuration.
func (d *daemon) wconfd() *client {
	d.t.Helper()
	c, err := luxiclient.Dial(context.Background(), d.path("run", "socket", "ganeti-wconfd"), luxiclient.Options{AnswerTimeout: patience})
	require.NoError(d.t, err)
	d.t.Cleanup(func() { _ = c.Close() })
	return &client{d.t, c}
}

// updateCluster changes the cluster object of the configuration by WConfD's call.
func (d *daemon) updateCluster(change func(cluster map[string]any)) {
	d.t.Helper()
	c := d.wconfd()
	var whole map[string]any
	c.call("readConfig", &whole)
	cluster := whole["cluster"].(map[string]any)
	change(cluster)
	c.call("updateCluster", nil, cluster)
}

func (c *client) history() []history.Entry {
	c.t.Helper()
	var h answer.ConfigHistory
	c.call("LockstepConfigHistory", &h, map[string]any{})
	return h.Entries
}

// The history of a real daemon says who has changed what, when and how, also after a crash. Its file has no secret.
func TestConfigHistory(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	before := time.Now()
	d.updateCluster(func(cluster map[string]any) {
		cluster["osparams_private_cluster"] = map[string]any{"debian": map[string]any{"root_password": "hush"}}
		cluster["mac_prefix"] = "aa:00:01"
	})
	d.kill() // before or after the fold: the next start completes it
	d.start()
	c := d.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 7})
	require.Zero(t, d.stop())
	content, err := os.ReadFile(d.path("lib", paths.ConfigHistoryPath))
	require.NoError(t, err)
	require.NotContains(t, string(content), "hush")
	info, err := os.Stat(d.path("lib", paths.ConfigHistoryPath))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoFileExists(t, d.path("lib", paths.ConfigJournalPath))

	d.start()
	entries := d.dial().history()
	for i, e := range entries {
		require.EqualValues(t, i+2, e.Serial, "each change is there once")
	}
	first := entries[0]
	require.Equal(t, "updateCluster", first.Method)
	require.Equal(t, os.Getpid(), first.Client.PID)
	require.Equal(t, os.Getuid(), *first.Client.UID)
	require.InDelta(t, float64(before.UnixMilli())/1e3, first.Time, patience.Seconds())
	var changed []string
	for _, p := range first.Objects[0].Paths {
		changed = append(changed, p.Path)
	}
	require.Subset(t, changed, []string{"mac_prefix", "osparams_private_cluster/debian"})
	require.Equal(t, "lockstepSetParameters", entries[1].Method)
	require.Contains(t, entries[1].Client.Name, strconv.Itoa(os.Getpid()), "the user and process that asked")
	require.Nil(t, entries[1].Client.UID)
	require.Equal(t, entries[1].Serial, entries[1].Before+1)
}

// A client that changes a node without its lock is in the history, with its call and the object, also after a crash of the daemon. With
// the setting it is refused, and one that has the lock is not.
func TestAChangeWithoutItsLock(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	tagNode := func(tag string) error {
		c := d.wconfd()
		var whole struct{ Nodes map[string]map[string]any }
		c.call("readConfig", &whole)
		for _, node := range whole.Nodes {
			node["tags"] = append(node["tags"].([]any), tag)
			return c.Call(context.Background(), "updateNode", []any{node}, nil)
		}
		return errors.New("there is no node")
	}
	require.NoError(t, tagNode("one"))
	d.updateCluster(func(cluster map[string]any) { cluster["tags"] = []any{"two"} })
	d.kill()
	d.start()
	d.wconfd().call("flushConfig", nil)
	var h answer.ConfigHistory
	d.dial().call("LockstepConfigHistory", &h, map[string]any{"unlocked": true})
	require.Len(t, h.Entries, 1)
	require.Equal(t, "updateNode", h.Entries[0].Method)
	require.Equal(t, os.Getpid(), h.Entries[0].Client.PID)
	require.Equal(t, "nodes", h.Entries[0].Objects[0].Kind)
	require.True(t, h.Entries[0].Objects[0].Unlocked)

	d.dial().call("LockstepSetSettings", nil, map[string]any{"config_lock_check": "refuse"})
	require.ErrorContains(t, tagNode("three"), "without the lock in exclusive mode")
	livelock := d.path("run", "livelocks", "raw-client")
	file, err := os.Create(livelock)
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	d.wconfd().call("tryUpdateLocks", nil, []any{"raw-client", livelock, os.Getpid()}, [][2]string{{"node/[lockset]", "exclusive"}})
	require.NoError(t, tagNode("four"))
}

// While another program's config.data is on the disk, changes fail with the names of the commands that decide. A touch, chmod or
// chown is no change.
func TestForeignConfig(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	path := d.path("lib", paths.ConfigPath)
	set := func(slots int) error {
		return c.Call(context.Background(), "LockstepSetSettings", []any{map[string]any{"max_running_jobs": slots}}, nil)
	}
	require.NoError(t, set(7))
	flush := func() { d.wconfd().call("flushConfig", nil) }
	flush()
	later := time.Now().Add(time.Hour)
	require.NoError(t, os.Chtimes(path, later, later))
	require.NoError(t, os.Chmod(path, 0o600))
	require.NoError(t, os.Chown(path, os.Getuid(), os.Getgid()))
	require.NoError(t, set(8))
	flush()

	foreign := func(slots string) {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		var whole map[string]any
		require.NoError(t, json.Unmarshal(content, &whole))
		whole["cluster"].(map[string]any)["max_running_jobs"] = json.Number(slots)
		whole["serial_no"] = whole["serial_no"].(float64) + 100
		changed, err := json.Marshal(whole)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path+".foreign", changed, 0o640))
		require.NoError(t, os.Rename(path+".foreign", path)) // as a program that is no editor does
	}
	slots := func() (s answer.QueueStatus) { c.call("LockstepStatus", &s); return s }
	for _, adopt := range []bool{true, false} {
		method := map[bool]string{true: "LockstepConfigAdopt", false: "LockstepConfigDiscard"}[adopt]
		foreign("13")
		for range 2 {
			err := set(9)
			require.ErrorContains(t, err, "config.data was changed by another program: it has serial number ")
			require.ErrorContains(t, err, "lockstep config adopt makes the file the configuration, lockstep config discard replaces the file")
			var failed *wire.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, "ConfigurationError", failed.Class)
		}
		require.Contains(t, slots().ForeignConfig, "lockstep config adopt")
		var resolved answer.ConfigResolved
		c.call(method, &resolved)
		require.True(t, resolved.Foreign)
		require.Equal(t, map[bool]int{true: 13, false: 10}[adopt], slots().RunSlots)
		require.Empty(t, slots().ForeignConfig)
		require.NoError(t, set(10))
		c.call(method, &resolved)
		require.False(t, resolved.Foreign, "nothing is to decide")
	}
	flush()
	entries := c.history()
	require.True(t, strings.HasPrefix(entries[2].Method, "lockstepAdopt"), entries[2].Method)
	require.Zero(t, d.stop())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), `"max_running_jobs":10`)
}
