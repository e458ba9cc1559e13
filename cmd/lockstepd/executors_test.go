package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Opcodes of a job send queries and changes of settings to the daemon. The daemon refuses a
// setting that it does not have.
func TestOpcodesThatAskTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	for name, o := range map[string]op{
		`"cluster_name"`:  {"OP_ID": "OP_QUERY", "what": "cluster", "fields": []string{"cluster_name", "nosuch"}},
		`"data":[]`:       {"OP_ID": "OP_QUERY", "what": "os", "fields": []string{"name"}},
		`"pnode"`:         {"OP_ID": "OP_QUERY_FIELDS", "what": "instance"},
		`"max_running_jo`: {"OP_ID": "OP_CLUSTER_QUERY"},
	} {
		id := c.submit(o)
		require.Equal(t, "success", c.await(id).Status, name)
		content, err := os.ReadFile(d.path("lib", "queue", "job-"+itoa(id)))
		require.NoError(t, err)
		require.Contains(t, compact(content), name)
	}
	require.Equal(t, "success", c.await(c.submit(op{"OP_ID": "OP_CLUSTER_SET_PARAMS", "max_running_jobs": 3})).Status)
	var settings map[string]any
	c.call("LockstepGetSettings", &settings)
	require.EqualValues(t, 3, settings["max_running_jobs"])
	refused := c.await(c.submit(op{"OP_ID": "OP_CLUSTER_SET_PARAMS", "vg_name": "xen"}))
	require.Equal(t, "error", refused.Status)
}

// A client that connects ends an interruptible delay.
func TestADelayIsInterrupted(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	id := c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 3600, "interruptible": true})
	var socket string
	require.Eventually(t, func() bool {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), "lockstep-*", "sock"))
		require.NoError(t, err)
		for _, path := range found {
			content, err := os.ReadFile(d.path("lib", "queue", "job-"+itoa(id)))
			require.NoError(t, err)
			if contains(content, path) {
				socket = path
			}
		}
		return socket != ""
	}, patience, 10*time.Millisecond)
	bell, err := net.Dial("unix", socket)
	require.NoError(t, err)
	require.NoError(t, bell.Close())
	require.Equal(t, "success", c.await(id).Status)
	require.NoFileExists(t, socket)
}

// A cancel ends a wait for locks at once, and frees the locks that the job requested.
func TestACancelEndsTheWaitForLocks(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	locks := [][2]string{{"node/a", "exclusive"}}
	for _, order := range []string{"expected", "plain"} { // without a process, and with one
		c.call("LockstepSetSettings", nil, map[string]any{"order": order})
		holds, open := d.gate("hold-" + order)
		first := c.submit(holds.with("locks", locks))
		c.awaitStatus(first, "running")
		second := c.submit(command("true").with("locks", locks))
		c.awaitBlocked(second, first, "node/a")
		require.Equal(t, "waiting", c.query(second).Status)
		done, text := c.ask("CancelJob", second, false)
		require.True(t, done, text)
		require.Equal(t, "canceled", c.query(second).Status)
		open()
		require.Equal(t, "success", c.await(first).Status)
		require.Equal(t, "success", c.await(c.submit(command("true").with("locks", locks))).Status)
	}
}

func itoa(id int64) string { return strconv.FormatInt(id, 10) }

func contains(content []byte, text string) bool { return bytes.Contains(content, []byte(text)) }

// compact is JSON without the spaces that Ganeti's job files have.
func compact(content []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, content) != nil {
		return string(content)
	}
	return out.String()
}
