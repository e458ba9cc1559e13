package persistence

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lockstep/core/paths"
)

// RemoveArchived removes archived job files that are older than age with their records,
// the ones with the smallest ids first, and returns how many jobs. A file's time is that
// of the job's last write: to archive it changes the name only. A record goes when its job
// is gone: after a crash in between, the next call removes it.
//
// It stops at the first job that is not old: jobs come in the order of their ids,
// so a later one with an older time is of a clock that was behind. A time in the
// future is of a clock that was ahead, and says nothing of other jobs: that file is
// kept. It goes on after an error, and returns all of them.
func RemoveArchived(dataDir string, now time.Time, age time.Duration) (removed int, err error) {
	files, err := archivedFiles(dataDir)
	for _, f := range files {
		switch {
		case f.written.After(now):
			continue
		case now.Sub(f.written) <= age:
			return removed, err
		}
		if removeErr := os.Remove(f.path); removeErr != nil {
			err = errors.Join(err, removeErr)
			continue
		}
		removed++
		if removeErr := os.Remove(filepath.Join(dataDir, paths.ArchivedRecordPath(f.id))); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	return removed, err
}

type archivedFile struct {
	id      int64
	path    string
	written time.Time
}

// archivedFiles are the job files that can be looked at, in the order of ids. Records
// without a job are removed.
func archivedFiles(dataDir string) (files []archivedFile, err error) {
	walkErr := filepath.WalkDir(filepath.Join(dataDir, paths.ArchiveDir), func(path string, entry fs.DirEntry, walkErr error) error {
		if walkErr != nil || entry.IsDir() {
			return walkErr
		}
		if id, isRecord := paths.ParseRecordName(entry.Name()); isRecord {
			err = errors.Join(err, removeOrphan(path, filepath.Join(dataDir, paths.ArchivePath(id))))
			return nil
		}
		id, isJob := paths.ParseJobName(entry.Name())
		if !isJob {
			return nil
		}
		info, statErr := entry.Info()
		if statErr != nil {
			err = errors.Join(err, statErr)
			return nil
		}
		files = append(files, archivedFile{id, path, info.ModTime()})
		return nil
	})
	slices.SortFunc(files, func(a, b archivedFile) int { return cmp.Compare(a.id, b.id) })
	return files, errors.Join(err, walkErr)
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
