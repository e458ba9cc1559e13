package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"lockstep/core/paths"
)

// Values of LostQueueError.Reason.
const (
	problemMissing  = "is missing"
	problemMismatch = "is not the one that the log in raft/ belongs to"
	problemNoSerial = "is missing, though this node has a log"
)

// LostQueueError says that the directory queue/ is not the queue of this data directory: its disk
// is not mounted, it was removed, or another queue is in its place. A daemon that ran on would
// lose acknowledged jobs and give out their ids again.
type LostQueueError struct {
	Path    string // the file that shows it
	Problem string
}

func (e *LostQueueError) Error() string { return e.Path + " " + e.Problem }

// CheckQueue returns a [*LostQueueError] if there is a configuration but no queue/version.
// [InitQueue] creates the version before the configuration, so the queue was lost.
func CheckQueue(files QueueFiles) error {
	configured, err := fileExists(files, paths.ConfigPath)
	if err != nil || !configured {
		return err
	}
	versioned, err := fileExists(files, paths.VersionPath)
	if err == nil && !versioned {
		err = &LostQueueError{paths.VersionPath, "is missing, though " + paths.ConfigPath + " is there"}
	}
	return err
}

// CheckQueueMark returns a [*LostQueueError] if the queue of a node with a consensus log does not
// belong to that log: entries before the latest snapshot would be missing. marked is false if
// there is no mark: the daemon was of an older version, or crashed before [MarkQueue].
func CheckQueueMark(files QueueFiles) (marked bool, err error) {
	log, err := readQueueMark(files, paths.LogQueuePath)
	if err != nil {
		return false, err
	}
	queue, err := readQueueMark(files, paths.MemberPath)
	if err != nil {
		return false, err
	}
	switch {
	case log != "" && queue == "":
		return false, &LostQueueError{paths.MemberPath, problemMissing}
	case log != "" && queue != log:
		return false, &LostQueueError{paths.MemberPath, problemMismatch}
	}
	serial, err := fileExists(files, paths.SerialPath)
	if err == nil && !serial {
		err = &LostQueueError{paths.SerialPath, problemNoSerial}
	}
	return log != "", err
}

// MarkQueue records in queue/ and in raft/ that they belong together, by a unique id. It writes
// the mark of queue/ first, which means nothing without the other.
func MarkQueue(files QueueFiles, id string) error {
	for _, name := range []string{paths.MemberPath, paths.LogQueuePath} {
		if err := files.Replace("mark-member", name, []byte(id+"\n")); err != nil {
			return fmt.Errorf("mark the queue as this node's: %w", err)
		}
		if err := files.SyncDir("mark-member", path.Dir(name)); err != nil {
			return fmt.Errorf("mark the queue as this node's: %w", err)
		}
	}
	return nil
}

// readQueueMark returns "" if there is no mark.
func readQueueMark(files QueueFiles, name string) (string, error) {
	data, err := files.Read("member", name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

func fileExists(files QueueFiles, name string) (bool, error) {
	_, err := files.Read("check-queue", name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
