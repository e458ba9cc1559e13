// Package layout is where things lie below the data directory: Ganeti's names
// (queue.md 3.1). Paths are slash-separated and relative to that directory.
package layout

import (
	"strconv"
	"strings"
)

const (
	QueueDir      = "queue"
	ArchiveDir    = "queue/archive"
	QuarantineDir = "queue/quarantine"

	ConfigPath  = "config.data"
	SerialPath  = "queue/serial"
	VersionPath = "queue/version"
	LockPath    = "queue/lock"
	DrainName   = "drain"

	// QueueVersion is the only queue format there has been.
	QueueVersion = "1\n"

	jobsPerArchiveDir = 10000
)

// JobPath is where a live job lies.
func JobPath(id int64) string { return QueueDir + "/" + JobName(id) }

// ArchivePath is where an archived job lies.
func ArchivePath(id int64) string {
	return ArchiveDir + "/" + strconv.FormatInt(id/jobsPerArchiveDir, 10) + "/" + JobName(id)
}

// JobName is a job file's base name.
func JobName(id int64) string { return "job-" + strconv.FormatInt(id, 10) }

// ParseJobName is the reverse of JobName. Other names are not job files:
// temporary files, or somebody's copy.
func ParseJobName(base string) (id int64, ok bool) {
	digits, found := strings.CutPrefix(base, "job-")
	if !found {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || id < 0 || JobName(id) != base {
		return 0, false
	}
	return id, true
}

// LivelockName is the first part of the name of a job's livelock file; IsJobLivelock
// tells a job's from a daemon's (locks.md section 3).
func LivelockName(id int64) string {
	digits := strconv.FormatInt(id, 10)
	return "job_" + strings.Repeat("0", max(0, 6-len(digits))) + digits
}

// IsJobLivelock reports whether a livelock path names a job process, not a
// daemon. A job file that names no job process was never confirmed: to start
// that job again is safe (DESIGN section 4, step 4).
func IsJobLivelock(path string) bool {
	return strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "job_")
}
