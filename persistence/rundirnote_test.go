package persistence

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// newRunDir is a run directory with a directory of livelocks.
func newRunDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(LivelockDir(dir), 0o750))
	return dir
}

func createLivelock(t *testing.T, runDir, name string) *Livelock {
	t.Helper()
	lock, err := CreateLivelock(LivelockDir(runDir), name, own)
	require.NoError(t, err)
	t.Cleanup(func() { _ = lock.Release() })
	return lock
}

func TestAnotherRunDirectory(t *testing.T) {
	for name, test := range map[string]struct {
		former  func(t *testing.T, former string)
		refused string
	}{
		"nothing lives there": {former: func(*testing.T, string) {}},
		"a process has died there": {former: func(t *testing.T, former string) {
			require.NoError(t, os.WriteFile(filepath.Join(LivelockDir(former), "job_000007_1_2_0123abcd"), nil, 0o600))
		}},
		"it was removed":         {former: func(t *testing.T, former string) { require.NoError(t, os.RemoveAll(former)) }},
		"a file is in its place": {former: replaceByFile},
		"a pipe lies there": {former: func(t *testing.T, former string) {
			require.NoError(t, unix.Mkfifo(filepath.Join(LivelockDir(former), "x"), 0o600))
		}},
		"a directory lies there": {former: func(t *testing.T, former string) {
			require.NoError(t, os.Mkdir(filepath.Join(LivelockDir(former), "x"), 0o700))
		}},
		"another data directory's daemon lives there": {former: func(t *testing.T, former string) { createLivelock(t, former, DaemonLivelock) }},
		"a job process lives there":                   {former: func(t *testing.T, former string) { createLivelock(t, former, paths.JobLivelockNameStart(7)) }, refused: "job_000007_"},
		"a program lives there":                       {former: func(t *testing.T, former string) { createLivelock(t, former, "backup") }, refused: "backup_"},
		"a loop of links is in its place": {former: func(t *testing.T, former string) {
			require.NoError(t, os.RemoveAll(former))
			require.NoError(t, os.Symlink(former, former))
		}, refused: "it is not known whether processes live in"},
	} {
		t.Run(name, func(t *testing.T) {
			dataDir, files := newMember(t)
			former, next := newRunDir(t), newRunDir(t)
			require.NoError(t, NoteRunDir(files, former))
			test.former(t, former)
			err := NoteRunDir(files, next)
			noted, readErr := os.ReadFile(filepath.Join(dataDir, paths.RunDirPath))
			require.NoError(t, readErr)
			if test.refused == "" {
				require.NoError(t, err)
				require.Equal(t, next+"\n", string(noted))
				return
			}
			var refusal *FormerRunDirError
			require.ErrorAs(t, err, &refusal)
			require.Equal(t, former, refusal.Former)
			require.ErrorContains(t, err, test.refused)
			require.Equal(t, former+"\n", string(noted))
		})
	}
}

func replaceByFile(t *testing.T, dir string) {
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
}

// Processes live in the run directory that is noted, whatever the name by which it is reached.
func TestTheSameRunDirectoryByAnotherName(t *testing.T) {
	dataDir, files := newMember(t)
	real := newRunDir(t)
	createLivelock(t, real, "backup")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(real, link))
	require.NoError(t, NoteRunDir(files, link))
	require.NoError(t, NoteRunDir(files, real))
	noted, err := os.ReadFile(filepath.Join(dataDir, paths.RunDirPath))
	require.NoError(t, err)
	require.Equal(t, real+"\n", string(noted), "the link may lead elsewhere later")
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink(newRunDir(t), link))
	require.Error(t, NoteRunDir(files, link))
}

// An unreadable note is no reason to take processes for dead.
func TestADamagedNoteOfTheRunDirectory(t *testing.T) {
	dataDir, files := newMember(t)
	require.NoError(t, os.WriteFile(filepath.Join(dataDir, paths.RunDirPath), nil, 0o640))
	require.ErrorContains(t, NoteRunDir(files, newRunDir(t)), "the note of it is damaged")
}
