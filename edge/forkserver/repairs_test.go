package forkserver

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// ganetiModules returns the directory of Ganeti's modules: of the layer with Debian's packages, or of this machine.
func ganetiModules(t testing.TB) string {
	const installed = "usr/share/ganeti/3.0"
	for _, root := range []string{filepath.Join(os.Getenv("GANETI_LAYER"), "files"), "/"} {
		dir := filepath.Join(root, installed)
		if exec.Command(python(t), "-c", "import sys; sys.path.insert(0, sys.argv[1]); import ganeti.mcpu", dir).Run() == nil {
			return dir
		}
	}
	t.Skip("NOT RUN: Ganeti's modules are not here; .ci/ganeti-layer makes a layer with them, which GANETI_LAYER names")
	return ""
}

// The signal that a lock is there ends the wait for it, and no signal is lost.
func TestTheWaitForLocks(t *testing.T) {
	t.Run("stand-in", func(t *testing.T) { checkLockWait(t, "testdata/mcpu", "stand-in") })
	t.Run("Ganeti", func(t *testing.T) { checkLockWait(t, ganetiModules(t)) })
}

func checkLockWait(t *testing.T, arguments ...string) {
	out, err := exec.Command(python(t), append([]string{"testdata/lock_wait_test.py", "."}, arguments...)...).Output()
	var failure *exec.ExitError
	if errors.As(err, &failure) {
		t.Log(string(failure.Stderr))
	}
	require.NoError(t, err)
	require.Equal(t, "ok\n", string(out))
}

// The functions of the supported version of Ganeti are the known ones, so all repairs are made.
func TestRepairsOfGanetisFunctions(t *testing.T) {
	const script = `import sys
sys.dont_write_bytecode = True
sys.path[:0] = sys.argv[1:3]
import lockstep_repairs
repairs = lockstep_repairs.Repairs(sys.argv[3:])
repairs.apply()
print(repairs.off)`
	out, err := exec.Command(python(t), append([]string{"-c", script, ".", ganetiModules(t)}, Repairs()...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, "{}\n", string(out))
}
