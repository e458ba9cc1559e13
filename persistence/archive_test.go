package persistence

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"lockstep/core/paths"
)

func TestRemoveArchived(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	write := func(path string, age time.Duration) string {
		file := filepath.Join(root, path)
		noError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		noError(t, os.WriteFile(file, nil, 0o640))
		noError(t, os.Chtimes(file, now, now.Add(-age)))
		return file
	}
	gone := []string{
		write(paths.ArchivePath(7), 48*time.Hour),
		write(paths.ArchivedRecordPath(7), time.Hour),
		write(paths.ArchivedRecordPath(5), time.Hour), // left by a crash
	}
	kept := []string{
		write(paths.ArchivedRecordPath(8), 48*time.Hour),
		write(paths.ArchivePath(6), -time.Hour), // of a clock that was ahead
		write(paths.ArchivePath(8), time.Hour),
		write(paths.ArchivePath(9), 50*365*24*time.Hour), // of a clock that was behind: the job before it is young
		write(paths.ArchivePath(20_000), time.Hour),
		write("queue/archive/0/notes.txt", 48*time.Hour),
		write(paths.JobPath(9), 48*time.Hour),
	}
	removed, err := RemoveArchived(root, now, 24*time.Hour)
	noError(t, err)
	if removed != 1 {
		t.Errorf("%d files were removed, want 1", removed)
	}
	for _, file := range gone {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", file, err)
		}
	}
	for _, file := range kept {
		if _, err := os.Stat(file); err != nil {
			t.Error(err)
		}
	}
}
