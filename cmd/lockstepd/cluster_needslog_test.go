package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/persistence"
)

// A node that is killed, and whose log is gone, starts without a cluster in the same boot, and not in another one, in which the last files of its
// queue may be damaged. The node that has its log starts in both cases.
func TestAQueueNeedsItsLogAfterAReboot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	m := c.nodes[0]
	u := c.user(0)
	u.awaitStatus(u.submit(command("true")), "success")
	m.crash()
	mark := m.path("lib", paths.NeedsLogPath)
	boot, err := persistence.BootID()
	require.NoError(t, err)
	content, err := os.ReadFile(mark)
	require.NoError(t, err)
	require.Equal(t, boot+"\n", string(content))

	require.NoError(t, os.WriteFile(mark, []byte("another boot\n"), 0o640))
	m.start()
	c.awaitVotes(1)
	u.awaitStatus(u.submit(command("true")), "success")
	m.crash()
	require.FileExists(t, mark)

	m.removeFile("raft")
	m.removeFile("member-of-cluster")
	require.NoError(t, os.WriteFile(mark, []byte("another boot\n"), 0o640))
	said := m.refusesToStart()
	require.Contains(t, said, "queue/needs-log says that files of the queue may be damaged")
	require.Contains(t, said, "rm "+mark)
	require.NoError(t, os.WriteFile(mark, content, 0o640))
	m.daemon.start()
	client := m.dial()
	require.EqualValues(t, 3, client.submit(command("true")))
	require.Equal(t, "success", client.await(3).Status)
	require.NoFileExists(t, mark)
	require.Zero(t, m.stop())
}
