package queuecopy

import (
	"path"
	"strings"

	"lockstep/core/paths"
)

// Unit is a part of the queue that is copied as a whole: a job by its id, or one of the files below.
type Unit int64

// The units that are no jobs.
const (
	Serial Unit = -1 - iota // the last job id that was given
	Drain                   // the drain flag
	Pause                   // the pause of the watcher
)

// PausePath is the file of Pause below the data directory.
const PausePath = "watcher.pause"

// IsJob reports whether the unit is a job.
func (u Unit) IsJob() bool { return u >= 0 }

// UnitOf returns the unit of a file below the data directory. Candidates get no copies of other files: a job's record, the
// quarantine and the configuration. archived: the file is in the archive.
func UnitOf(file string) (u Unit, archived, ok bool) {
	switch file {
	case paths.SerialPath:
		return Serial, false, true
	case paths.DrainPath:
		return Drain, false, true
	case PausePath:
		return Pause, false, true
	}
	id, isJob := paths.ParseJobName(path.Base(file))
	switch {
	case !isJob:
		return 0, false, false
	case file == paths.JobPath(id):
		return Unit(id), false, true
	case strings.HasPrefix(file, paths.ArchiveDir+"/") && file == paths.ArchivePath(id):
		return Unit(id), true, true
	}
	return 0, false, false
}

// Path is the file of a unit below the data directory; of a job, its live file.
func (u Unit) Path() string {
	switch u {
	case Serial:
		return paths.SerialPath
	case Drain:
		return paths.DrainPath
	case Pause:
		return PausePath
	}
	return paths.JobPath(int64(u))
}
