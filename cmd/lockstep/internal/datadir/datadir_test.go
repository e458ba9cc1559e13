package datadir

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The data directory of the source tree is chosen only if it holds a queue.
func TestDataDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Equal(t, systemDataDir, Choose(""))
	require.NoError(t, os.MkdirAll("var/lib", 0o750))
	require.Equal(t, systemDataDir, Choose(""))
	require.NoError(t, os.MkdirAll("var/lib/queue", 0o750))
	require.Equal(t, localDataDir, Choose(""))
	require.Equal(t, "/x", Choose("/x"))
}
