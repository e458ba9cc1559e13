package places

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramsOfABuildAndOfAPackage(t *testing.T) {
	root := t.TempDir()
	bin, sbin := filepath.Join(root, "bin"), filepath.Join(root, "sbin")
	put := func(path string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o755))
		return path
	}
	require.Equal(t, filepath.Join(bin, "lockstepd"), Daemon(bin), "none is there")
	daemon, job := put(filepath.Join(sbin, "lockstepd")), put(filepath.Join(root, "lib/lockstep/lockstep-job"))
	require.Equal(t, daemon, Daemon(bin))
	require.Equal(t, job, JobProgram(sbin))
	require.Equal(t, put(filepath.Join(bin, "lockstepd")), Daemon(bin), "a build")
	require.Equal(t, put(filepath.Join(sbin, "lockstep-job")), JobProgram(sbin), "a build")
}
