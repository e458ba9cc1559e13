package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/standby"
)

// clusterAlice is the account alice of a cluster of users.
var clusterAlice = account{alice, []uint32{uint32(alice.UID), socketGroup}}

// usersCluster is a cluster of root's daemons, each in a mount namespace with the account alice, who is in the group of the sockets.
func usersCluster(t *testing.T, size int) *cluster {
	t.Helper()
	if out, err := exec.Command("unshare", "--mount", "true").CombinedOutput(); os.Geteuid() != 0 || err != nil {
		t.Skipf("NOT RUN: it needs root, who can be anybody, and a mount namespace: %v: %s", err, out)
	}
	return newClusterAt(t, loopback(t, size), func(_ int, m *member) {
		require.NoError(t, os.Chmod(m.root, 0o711))
		for file, lines := range map[string]string{
			"passwd": fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\nalice:x:%d:%d::/nonexistent:/bin/sh\n", alice.UID, alice.UID),
			"group":  fmt.Sprintf("root:x:0:\nalice:x:%d:\nlockstep:x:%d:alice\n", alice.UID, socketGroup),
		} {
			require.NoError(t, os.WriteFile(m.path(file), []byte(lines), 0o644)) //nolint:gosec // as in /etc
		}
		script := fmt.Sprintf(`mount --bind %[1]s/passwd /etc/passwd && mount --bind %[1]s/group /etc/group && exec "$0" "$@"`, m.root)
		m.prefix = []string{"unshare", "--mount", "sh", "-c", script}
		m.flags = []string{"--socket-group", strconv.Itoa(socketGroup)}
	})
}

// Alice submits a job through a node that is not the master. The master is killed while the job is queued, and under the next one it runs
// as alice. It is hers there: she may cancel it, and no job of root's.
func TestClusterRunsAJobAsItsSubmitterAfterAKillOfTheMaster(t *testing.T) {
	t.Parallel()
	c := usersCluster(t, 3)
	master := c.master()
	var pause string
	root := master.dial()
	root.call("ReplaceFilter", &pause, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	roots := root.submit(command("true"))
	hers := c.others(master)[0].dialAs(clusterAlice)
	hers.call(standby.ForwardMethod, nil)
	id := hers.submit(command("sh", "-c", "id -un; id -u; id -G"))
	canceled := hers.submit(command("true"))
	master.crash()

	next := c.master()
	require.NotEqual(t, master.name, next.name)
	hers = next.dialAs(clusterAlice)
	err := hers.Call(context.Background(), "CancelJob", []any{roots, true}, nil)
	require.ErrorContains(t, err, fmt.Sprintf("job %d is root's; to kill it needs the role operate, alice has submit", roots))
	var done []any
	hers.call("CancelJob", &done, canceled, false)
	require.Equal(t, true, done[0], "%v", done)
	root = next.dial()
	root.call("DeleteFilter", nil, pause)
	j := root.await(id)
	require.Equal(t, "success", j.Status, "%s", j.Results)
	require.Equal(t, []string{"alice", strconv.Itoa(alice.UID), fmt.Sprintf("%d %d", alice.UID, socketGroup)}, j.linesOfOp(0))
	require.Equal(t, "success", root.await(roots).Status)
}
