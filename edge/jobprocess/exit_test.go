package jobprocess

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/messages"
)

// A process that only has to record the end of its job, and whose queue is missing, ends on
// SIGTERM.
func TestAJobProcessWithoutAQueueEndsWhenItIsTold(t *testing.T) {
	r := newFixture(t, jobProgram)
	door := filepath.Join(r.dir, "door")
	require.NoError(t, unix.Mkfifo(door, 0o600))
	_, livelock := r.command("read word < " + door)
	require.NoError(t, os.Rename(filepath.Join(r.dir, "lib"), filepath.Join(r.dir, "gone")))
	require.NoError(t, os.WriteFile(door, []byte("word\n"), 0o600))
	stderr := filepath.Join(r.dir, "log", "jobs.log")
	require.Eventually(t, func() bool {
		info, err := os.Stat(stderr)
		return err == nil && info.Size() > 0
	}, patience, 5*time.Millisecond)
	// SIGTERM is a cancel while the command runs, so it is sent until the process only has
	// to record the end.
	require.Eventually(t, func() bool {
		_ = syscall.Kill(pidOf(livelock), syscall.SIGTERM)
		select {
		case m := <-r.messages:
			require.Equal(t, "exit status 5", m.(*messages.ProcessGone).Text)
			return true
		default:
			return false
		}
	}, patience, 20*time.Millisecond)
	content, err := os.ReadFile(stderr)
	require.NoError(t, err)
	require.Contains(t, string(content), "the directory of the queue is gone")
}
