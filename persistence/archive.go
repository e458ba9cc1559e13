package persistence

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"lockstep/core/paths"
)

// RemoveArchived removes archived job files that are older than age, and their records, in the
// order of ids, at most as many as given. It returns the number of jobs, and whether there may be
// more. The age of a file is the time since the last write of its job; archiving only renames the
// file. A record is removed after its job; after a crash in between, the next call removes the
// record.
//
// RemoveArchived stops at the first job that is not older than age, and reads no later directory.
// Files are written about in the order of ids, so an older file behind it was written while the
// clock was wrong. It skips a file with a time in the future, for the same reason. After an error
// it continues, and returns all errors.
func RemoveArchived(dataDir string, now time.Time, age time.Duration, most int) (removed int, more bool, err error) {
	dirs, err := archiveDirs(dataDir)
	for _, dir := range dirs {
		files, listErr := archivedFiles(dataDir, dir)
		err = errors.Join(err, listErr)
		for _, f := range files {
			switch {
			case f.written.After(now):
				continue
			case now.Sub(f.written) <= age:
				return removed, false, err
			case removed == most:
				return removed, true, err
			}
			if removeErr := os.Remove(f.path); removeErr != nil {
				err = errors.Join(err, removeErr)
				continue
			}
			removed++
			// After its job: a record that a crash leaves here belongs to no job, and the next call removes it.
			if removeErr := os.Remove(filepath.Join(dataDir, paths.ArchivedRecordPath(f.id))); !errors.Is(removeErr, fs.ErrNotExist) {
				err = errors.Join(err, removeErr)
			}
		}
	}
	return removed, false, err
}

// archiveDirs are the directories of the archive, in the order of the ids in them.
func archiveDirs(dataDir string) ([]string, error) {
	archive := filepath.Join(dataDir, paths.ArchiveDir)
	entries, err := os.ReadDir(archive)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	numbers := map[string]int64{}
	for _, e := range entries {
		if n, parseErr := strconv.ParseInt(e.Name(), 10, 64); parseErr == nil && e.IsDir() {
			numbers[filepath.Join(archive, e.Name())] = n
		}
	}
	return slices.SortedFunc(maps.Keys(numbers), func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) }), err
}

type archivedFile struct {
	id      int64
	path    string
	written time.Time
}

// archivedFiles lists the job files of one directory that can be examined, in the order of ids. It
// removes records without a job.
func archivedFiles(dataDir, dir string) (files []archivedFile, err error) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if id, isRecord := paths.ParseRecordName(entry.Name()); isRecord {
			err = errors.Join(err, removeOrphan(path, filepath.Join(dataDir, paths.ArchivePath(id))))
			continue
		}
		id, isJob := paths.ParseJobName(entry.Name())
		if !isJob || entry.IsDir() {
			continue
		}
		info, statErr := entry.Info()
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		files = append(files, archivedFile{id, path, info.ModTime()})
	}
	slices.SortFunc(files, func(a, b archivedFile) int { return cmp.Compare(a.id, b.id) })
	return files, err
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
