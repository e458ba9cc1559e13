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
	removed, more, err := RemoveArchived(root, now, 24*time.Hour, 1)
	noError(t, err)
	if removed != 1 || more {
		t.Errorf("%d files were removed, want 1; more: %v", removed, more)
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

// Old jobs are removed in pieces, in the order of ids, over all directories; the record goes with its job.
func TestRemoveArchivedInPieces(t *testing.T) {
	root := t.TempDir()
	now := time.Now()
	ids := []int64{7, 8, 9_999, 20_000, 100_000}
	for _, id := range ids {
		for _, path := range []string{paths.ArchivePath(id), paths.ArchivedRecordPath(id)} {
			file := filepath.Join(root, path)
			noError(t, os.MkdirAll(filepath.Dir(file), 0o750))
			noError(t, os.WriteFile(file, nil, 0o640))
			noError(t, os.Chtimes(file, now, now.Add(-48*time.Hour)))
		}
	}
	for done := 0; done < len(ids); done += 2 {
		removed, more, err := RemoveArchived(root, now, 24*time.Hour, 2)
		noError(t, err)
		if removed != min(2, len(ids)-done) || more != (done+2 < len(ids)) {
			t.Fatalf("%d files were removed, more: %v", removed, more)
		}
		for i, id := range ids {
			_, err := os.Stat(filepath.Join(root, paths.ArchivePath(id)))
			_, recordErr := os.Stat(filepath.Join(root, paths.ArchivedRecordPath(id)))
			if gone := i < done+2; os.IsNotExist(err) != gone || os.IsNotExist(recordErr) != gone {
				t.Errorf("after %d removals: job %d: %v, %v", done+2, id, err, recordErr)
			}
		}
	}
}
