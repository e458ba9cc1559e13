package persistence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Chmod does not change the identity of a file; a write within the same second does.
func TestIdentity(t *testing.T) {
	root := t.TempDir()
	files, err := OpenFiles(root, own)
	require.NoError(t, err)
	defer files.Close()
	name := filepath.Join(root, "config.data")
	require.NoError(t, os.WriteFile(name, []byte("1"), 0o600))
	at := time.Unix(1000, 1)
	identify := func() string {
		require.NoError(t, os.Chtimes(name, at, at))
		identity, err := files.Identify("test", "config.data")
		require.NoError(t, err)
		return identity
	}
	first := identify()
	require.NoError(t, os.Chmod(name, 0o640))
	require.Equal(t, first, identify())
	at = time.Unix(1000, 2)
	require.NotEqual(t, first, identify())
}
