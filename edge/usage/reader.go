// Package usage reads what jobs have used from their files, those of the queue and those of the archive. It works beside the actors: a long
// search neither waits for the store nor keeps it from its work.
package usage

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"lockstep/core/paths"
	"lockstep/core/usage"
)

// Files are the files below the data directory, as persistence.OSFiles has them.
type Files interface {
	Read(op, path string) ([]byte, error)
	List(op, dir string) ([]string, error)
}

// Reader is the port call.UsedFiles. It makes one page at a time, so that all clients together take at most one processor.
type Reader struct {
	files Files
	turn  chan struct{} // has one element while a page is made
}

// NewReader reads these files.
func NewReader(files Files) *Reader { return &Reader{files: files, turn: make(chan struct{}, 1)} }

// Page is part of call.UsedFiles: it passes a usage.Page as JSON to done, on another goroutine.
func (r *Reader) Page(q usage.Query, done func(page []byte, err error)) {
	go func() {
		r.turn <- struct{}{}
		page, err := r.page(q)
		<-r.turn
		if err != nil {
			done(nil, err)
			return
		}
		done(json.Marshal(page))
	}()
}

// page walks over the ids from the highest one down: those of the queue, and of each directory of the archive. The queue is listed first,
// so that a job that is archived meanwhile is in one of both.
func (r *Reader) page(q usage.Query) (usage.Page, error) {
	walk := usage.NewWalk(q)
	live, err := r.jobsIn(paths.QueueDir, walk)
	if err != nil {
		return usage.Page{}, err
	}
	dirs, err := r.archiveDirs(q.Cursor)
	if err != nil {
		return usage.Page{}, err
	}
	for _, dir := range append(dirs, -1) { // ids that remain after the last directory
		ids := []int64{}
		if dir >= 0 {
			if ids, err = r.jobsIn(paths.ArchiveDir+"/"+strconv.FormatInt(dir, 10), walk); err != nil {
				return usage.Page{}, err
			}
		}
		for len(live) > 0 && paths.ArchiveDirOf(live[0]) >= dir {
			ids, live = append(ids, live[0]), live[1:]
		}
		slices.SortFunc(ids, descending)
		for _, id := range slices.Compact(ids) {
			if !r.take(walk, id) {
				return walk.Page(), nil
			}
		}
	}
	return walk.Page(), nil
}

func descending(a, b int64) int { return cmp.Compare(b, a) }

// jobsIn are the ids of jobs with files in a directory that the walk wants, the highest first.
func (r *Reader) jobsIn(dir string, walk *usage.Walk) ([]int64, error) {
	names, err := r.files.List("usage", dir)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for _, name := range names {
		if id, is := paths.ParseJobName(name); is && walk.Wants(id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, descending)
	return ids, nil
}

// archiveDirs are the numbers of the directories of the archive that may have ids below the cursor (0: any), the highest first.
func (r *Reader) archiveDirs(cursor int64) ([]int64, error) {
	names, err := r.files.List("usage", paths.ArchiveDir)
	if err != nil {
		return nil, err
	}
	var dirs []int64
	for _, name := range names {
		if n, err := strconv.ParseInt(name, 10, 64); err == nil && n >= 0 && (cursor == 0 || n <= paths.ArchiveDirOf(cursor-1)) {
			dirs = append(dirs, n)
		}
	}
	slices.SortFunc(dirs, descending)
	return dirs, nil
}

// take reads a job for the walk. A job that was removed meanwhile does not exist. It reports whether the walk goes on.
func (r *Reader) take(walk *usage.Walk, id int64) bool {
	content, err := r.read(paths.ArchivePath(id), paths.JobPath(id))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		return walk.Miss(id)
	}
	rec, err := r.read(paths.ArchivedRecordPath(id), paths.RecordPath(id))
	if err != nil { // most jobs of Ganeti's clients have no record
		rec = nil
	}
	return walk.Take(id, content, rec)
}

// read reads a file of a job, which moves from the queue to the archive: a file that is at none of both places when it is looked for in
// this order may have moved in between.
func (r *Reader) read(archived, live string) ([]byte, error) {
	var content []byte
	var err error
	for _, path := range []string{archived, live, archived} {
		if content, err = r.files.Read("usage", path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return content, err
}
