package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"lockstep/core/paths"
)

// Why a queue is not the one that is to be run, as [*LostQueueError] has it.
const (
	problemMissing  = "is missing"
	problemMismatch = "is not the one that the log in raft/ belongs to"
	problemNoSerial = "is missing, though this node has a log"
)

// LostQueueError says that the directory queue/ is not what this data directory had
// before: its disk is not mounted, it was removed, or another one is in its place. To
// go on with it would be to forget jobs that were acknowledged, and to give out their
// ids again.
type LostQueueError struct {
	Path    string // the file that shows it
	Problem string
}

func (e *LostQueueError) Error() string { return e.Path + " " + e.Problem }

// CheckQueue returns a [*LostQueueError] where there is a configuration and no
// queue/version: [InitQueue] makes the version first, so that a queue was lost.
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

// CheckQueueMark returns a [*LostQueueError] where the queue of a node that has a log is
// not the one that the log belongs to: the entries that its snapshots stand for would
// be missing. marked is false where that cannot be told, because a daemon of an older
// version, or one that was cut off, has not marked the two: see [MarkQueue].
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

// MarkQueue has queue/ and raft/ know each other, by an id that no other queue has. The
// queue comes first: a mark of it alone says nothing.
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

// readQueueMark returns "" where there is no mark.
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
