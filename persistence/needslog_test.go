package persistence

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
)

func TestAQueueThatNeedsItsLog(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(t *testing.T, files *OSFiles)
		refused bool // a daemon without a log does not start
	}{
		"never without a sync": {change: func(*testing.T, *OSFiles) {}},
		"of this boot":         {change: func(t *testing.T, files *OSFiles) { require.NoError(t, MarkNeedsLog(files, "boot 2")) }},
		"of another boot":      {change: func(t *testing.T, files *OSFiles) { require.NoError(t, MarkNeedsLog(files, "boot 1")) }, refused: true},
		"of another boot, and opened since": {change: func(t *testing.T, files *OSFiles) {
			require.NoError(t, MarkNeedsLog(files, "boot 1"))
			require.NoError(t, MarkNeedsLog(files, "boot 2"))
		}, refused: true},
		"of another boot, stopped before the log was applied again": {change: func(t *testing.T, files *OSFiles) {
			require.NoError(t, MarkNeedsLog(files, "boot 1"))
			require.NoError(t, SettleFiles(files, "boot 2", false))
		}, refused: true},
		"of another boot, stopped after the log was applied again": {change: func(t *testing.T, files *OSFiles) {
			require.NoError(t, MarkNeedsLog(files, "boot 1"))
			require.NoError(t, SettleFiles(files, "boot 2", true))
		}},
		"after a failed sync": {change: func(t *testing.T, files *OSFiles) {
			require.NoError(t, MarkNeedsLog(files, "boot 2"))
			require.NoError(t, MarkSyncFailed(files))
		}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir, files := newMember(t)
			c.change(t, files)
			err := CheckNeedsLog(files, "boot 2")
			if c.refused {
				var needs *NeedsLogError
				require.ErrorAs(t, err, &needs)
				require.FileExists(t, filepath.Join(dataDir, paths.NeedsLogPath))
				return
			}
			require.NoError(t, err)
			require.NoFileExists(t, filepath.Join(dataDir, paths.NeedsLogPath))
		})
	}
}

// Each file system that holds replicated files is synced once, also behind a symbolic link.
func TestFileSystemsOfADataDirectory(t *testing.T) {
	dataDir, _ := newMember(t)
	other, err := os.MkdirTemp("/dev/shm", "lockstep-test-")
	if err != nil {
		t.Skip("NOT RUN: a second file system, which needs /dev/shm")
	}
	defer os.RemoveAll(other)
	one, err := OpenFileSystems(dataDir)
	require.NoError(t, err)
	defer one.Close()
	require.NoError(t, one.Sync())
	require.NoError(t, os.RemoveAll(filepath.Join(dataDir, paths.QueueDir)))
	require.NoError(t, os.Symlink(other, filepath.Join(dataDir, paths.QueueDir)))
	for _, dir := range []string{paths.ArchiveDir, paths.QuarantineDir} {
		require.NoError(t, os.Mkdir(filepath.Join(dataDir, dir), 0o700))
	}
	two, err := OpenFileSystems(dataDir)
	require.NoError(t, err)
	defer two.Close()
	require.NoError(t, two.Sync())
	if len(two.held) == 1 {
		t.Skip("NOT RUN: two file systems, because /dev/shm is on that of the temporary files")
	}
	require.Len(t, two.held, 2)
	require.Error(t, one.Sync(), "the queue is on another file system since")
	require.NoError(t, os.Remove(filepath.Join(dataDir, paths.QueueDir)))
	require.NoError(t, MakeDirs(dataDir, t.TempDir(), t.TempDir(), own))
	require.Error(t, one.Sync(), "a sync that has failed is not repeated")
}

func TestReleasesThatReportErrors(t *testing.T) {
	for release, want := range map[string]bool{"5.7.19": false, "5.8.0": true, "5.10.0-28-amd64": true, "6.1": true, "6.18.44": true, "4.19.0": false, "unknown": false, "": false} {
		require.Equal(t, want, reportsErrors(release), release)
	}
}

// failingSync fails once, as the kernel reports an error once, and does not write what follows until it works again.
type failingSync struct {
	*OSFiles
	fails bool
}

var errDisk = errors.New("input/output error")

func (f *failingSync) SyncAll(op string) error {
	if f.fails {
		return errDisk
	}
	return f.OSFiles.SyncAll(op)
}

func (f *failingSync) Replace(op, path string, data ...[]byte) error {
	if f.fails {
		return errDisk
	}
	return f.OSFiles.Replace(op, path, data...)
}

// A sync fails, and the mark that says so cannot be written. The next daemon of the boot knows nothing of it; its sync succeeds, and does
// not make the files durable. They need the log until all entries were applied again.
func TestAFailedSyncThatCouldNotBeRecordedIsNotForgotten(t *testing.T) {
	dataDir, disk := newMember(t)
	files := &failingSync{OSFiles: disk}
	require.NoError(t, MarkNeedsLog(files, "boot 1"))
	files.fails = true
	require.Error(t, files.SyncAll("note"))
	require.Error(t, MarkSyncFailed(files))
	files.fails = false

	require.NoError(t, MarkNeedsLog(files, "boot 1")) // by the next daemon
	require.NoError(t, SettleFiles(files, "boot 1", false))
	require.FileExists(t, filepath.Join(dataDir, paths.NeedsLogPath))
	var needs *NeedsLogError
	require.ErrorAs(t, CheckNeedsLog(files, "boot 1"), &needs, "without its log")
	require.NoError(t, MarkNeedsLog(files, "boot 1"))
	require.NoError(t, SettleFiles(files, "boot 1", true))
	require.NoFileExists(t, filepath.Join(dataDir, paths.NeedsLogPath))
}
