package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/jobproc"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// The file of an ended job that a daemon has archived is not made again. A directory that is gone is an error.
func TestAnArchivedJobFileIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	queue := filepath.Join(dir, paths.QueueDir)
	require.NoError(t, os.Mkdir(queue, 0o700))
	files, err := persistence.OpenFiles(dir, ownership.Rules{})
	require.NoError(t, err)
	defer files.Close()
	path := paths.JobPath(5)
	w := jobproc.FileWrite{Content: []byte("{}"), Durable: true}
	require.NoError(t, writeJobFile(files, path, w))
	w.Ended = true
	require.NoError(t, writeJobFile(files, path, w))
	require.FileExists(t, filepath.Join(dir, path))

	require.NoError(t, os.Remove(filepath.Join(dir, path)))
	require.NoError(t, writeJobFile(files, path, w))
	require.NoFileExists(t, filepath.Join(dir, path))

	require.NoError(t, os.RemoveAll(queue))
	require.ErrorIs(t, writeJobFile(files, path, w), fs.ErrNotExist)
}
