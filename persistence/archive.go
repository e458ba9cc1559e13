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
// given time, and returns how many. It goes on after an error, and returns all of
// them. A file's time is that of the job's last write: to archive it changes the
// name only.
func RemoveArchived(dataDir string, before time.Time) (removed int, err error) {
	root := filepath.Join(dataDir, layout.ArchiveDir)
	walkErr := filepath.WalkDir(root, func(path string, entry fs.DirEntry, walkErr error) error {
		if walkErr != nil || entry.IsDir() {
			return walkErr
		}
		if _, isJob := layout.ParseJobName(entry.Name()); !isJob {
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
		return nil
	})
	return removed, errors.Join(err, walkErr)
}
