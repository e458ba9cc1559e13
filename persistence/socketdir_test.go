package persistence

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheSocketsOfAUserAreInAnotherDirectory(t *testing.T) {
	base := t.TempDir()
	run, other := filepath.Join(base, "run"), filepath.Join(base, "other", "lockstep")
	require.NoError(t, os.Mkdir(run, 0o750))
	listen := func(dir string) {
		l, err := net.Listen("unix", SocketPath(run, "s"))
		require.NoError(t, err)
		require.FileExists(t, filepath.Join(dir, "s"))
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		require.NoError(t, l.Close())
	}

	require.NoError(t, MakeSocketDir(run, SocketDir(run), own))
	listen(SocketDir(run))

	// The stale socket of the former daemon goes with its directory.
	require.NoError(t, MakeSocketDir(run, other, own))
	listen(other)
	require.NoError(t, MakeSocketDir(run, other, own))

	// The runtime directory was removed at a logout.
	require.NoError(t, os.RemoveAll(other))
	require.NoError(t, MakeSocketDir(run, other, own))
	listen(other)

	third := filepath.Join(base, "third")
	require.NoError(t, MakeSocketDir(run, third, own))
	listen(third)

	require.NoError(t, os.RemoveAll(third))
	require.NoError(t, MakeSocketDir(run, SocketDir(run), own))
	listen(SocketDir(run))

	require.NoError(t, os.WriteFile(filepath.Join(SocketDir(run), "notes"), nil, 0o600))
	require.ErrorContains(t, MakeSocketDir(run, other, own), filepath.Join(SocketDir(run), "notes"))
}
