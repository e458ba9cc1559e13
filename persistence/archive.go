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

// RemoveArchived removes archived job files that are older than age, and their records, in the
// order of ids, and returns the number of jobs. The age of a file is the time since the last
// write of its job; archiving only renames the file. A record is removed after its job; after a
// crash in between, the next call removes the record.
//
// RemoveArchived stops at the first job that is not older than age. Files are written about in
// the order of ids, so an older file behind it was written while the clock was wrong. It skips a
// file with a time in the future, for the same reason. After an error it continues, and returns
// all errors.
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

// archivedFiles lists the archived job files that can be examined, in the order of ids. It
// removes records without a job.
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

// removeOrphan removes the record of a job that is no longer in the archive. A job is archived
// before its record.
func removeOrphan(record, jobFile string) error {
	if _, err := os.Lstat(jobFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Remove(record); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
