package persistence

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"lockstep/actors/core/layout"
)

// RemoveArchived removes archived job files that were last written before the
// given time, with their records, and returns how many jobs. It goes on after an error, and returns all of
// them. A file's time is that of the job's last write: to archive it changes the
// name only. A record goes when its job is gone: after a crash in between, the next
// call removes it.
func RemoveArchived(dataDir string, before time.Time) (removed int, err error) {
	root := filepath.Join(dataDir, layout.ArchiveDir)
	walkErr := filepath.WalkDir(root, func(path string, entry fs.DirEntry, walkErr error) error {
		if walkErr != nil || entry.IsDir() {
			return walkErr
		}
		if id, isRecord := layout.ParseRecordName(entry.Name()); isRecord {
			err = errors.Join(err, removeOrphan(path, filepath.Join(dataDir, layout.ArchivePath(id))))
			return nil
		}
		id, isJob := layout.ParseJobName(entry.Name())
		if !isJob {
			return nil
		}
		info, statErr := entry.Info()
		if statErr != nil || !info.ModTime().Before(before) {
			return statErr
		}
		if removeErr := os.Remove(path); removeErr != nil {
			err = errors.Join(err, removeErr)
			return nil
		}
		removed++
		if removeErr := os.Remove(filepath.Join(dataDir, layout.ArchivedRecordPath(id))); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
		return nil
	})
	return removed, errors.Join(err, walkErr)
}

// removeOrphan removes the record of a job that is not in the archive any more. A job
// comes there before its record.
func removeOrphan(record, jobFile string) error {
	if _, err := os.Lstat(jobFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(record); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
