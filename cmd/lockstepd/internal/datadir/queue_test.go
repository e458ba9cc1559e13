package datadir

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// The only node of a cluster has no other to take a copy from. Its operator may go on with the older queue.
func TestTheOnlyNodeWithAnOlderQueue(t *testing.T) {
	dir := t.TempDir()
	c := settings.Config{DataDir: filepath.Join(dir, "lib")}
	require.NoError(t, persistence.MakeDirs(c.DataDir, filepath.Join(dir, "run"), filepath.Join(dir, "log"), ownership.Rules{}))
	require.NoError(t, os.MkdirAll(filepath.Join(c.DataDir, RaftDir, "wal"), 0o700))
	files, err := persistence.OpenFiles(c.DataDir, ownership.Rules{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = files.Close() })
	_, err = persistence.InitQueue(files)
	require.NoError(t, err)
	founder := &peer.Identity{Name: "n1", Founder: true}
	require.NoError(t, CheckQueue(c, files, founder))
	older, err := files.Read("test", paths.MemberPath)
	require.NoError(t, err)
	require.NoError(t, persistence.MarkApplied(files, 7))
	require.NoError(t, CheckQueue(c, files, founder))
	require.NoError(t, files.Replace("test", paths.MemberPath, older))
	err = CheckQueue(c, files, founder)
	require.ErrorContains(t, err, "the queue of this node, n1, is an older copy: queue/member is of entry 0 of the log, and the log in raft/ needs the files of entry 7")
	accept := regexp.MustCompile(`rm (\S+)$`).FindStringSubmatch(err.Error())
	require.NotNil(t, accept, "%v", err)
	require.NoError(t, os.Remove(accept[1]))
	require.NoError(t, CheckQueue(c, files, founder))
	require.NoError(t, persistence.MarkApplied(files, 9))
}
