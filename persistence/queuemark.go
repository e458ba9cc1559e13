package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
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
	Older   bool // the queue is an older copy of that of this node
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
		err = &LostQueueError{Path: paths.VersionPath, Problem: "is missing, though " + paths.ConfigPath + " is there"}
	}
	return err
}

// queueMark is what queue/member and raft/queue say. The text is the id, a space and the index, without the latter two if the index is 0.
type queueMark struct {
	id    string // of the queue and its log; "": there is no mark
	index uint64 // of an entry of the log: the durable files of the queue contain this one and all before it
}

// String is the content of the file without its newline.
func (m queueMark) String() string {
	if m.index == 0 {
		return m.id
	}
	return fmt.Sprintf("%s %d", m.id, m.index)
}

// CheckQueueMark returns a [*LostQueueError] if the queue of a node with a consensus log does not
// belong to that log, or is an older copy of its queue: entries before the latest snapshot would be missing. marked is false if
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
	case log.id != "" && queue.id == "":
		return false, &LostQueueError{Path: paths.MemberPath, Problem: problemMissing}
	case log.id != "" && queue.id != log.id:
		return false, &LostQueueError{Path: paths.MemberPath, Problem: problemMismatch}
	case log.id != "" && queue.index < log.index:
		problem := fmt.Sprintf("is of entry %d of the log, and the log in raft/ needs the files of entry %d", queue.index, log.index)
		return false, &LostQueueError{Path: paths.MemberPath, Problem: problem, Older: true}
	}
	serial, err := fileExists(files, paths.SerialPath)
	if err == nil && !serial {
		err = &LostQueueError{Path: paths.SerialPath, Problem: problemNoSerial}
	}
	return log.id != "", err
}

// MarkQueue records in queue/ and in raft/ that they belong together, by a unique id.
func MarkQueue(files QueueFiles, id string) error {
	if err := writeQueueMark(files, queueMark{id: id}); err != nil {
		return fmt.Errorf("mark the queue as this node's: %w", err)
	}
	return nil
}

// MarkApplied records in queue/ and in raft/ that the files of the queue, which are durable, contain all entries of the log up to
// an index. The log calls it before it records the index itself: from then on it may lack these entries, so that an older copy
// of the queue must not be used with it. An older version of the daemon compares the files only, which are equal.
func MarkApplied(files QueueFiles, index uint64) error {
	mark, err := readQueueMark(files, paths.LogQueuePath)
	if err == nil && mark.id == "" {
		err = fmt.Errorf("there is no %s", paths.LogQueuePath)
	}
	if err == nil && mark.index < index {
		mark.index = index
		err = writeQueueMark(files, mark)
	}
	if err != nil {
		return fmt.Errorf("mark the queue as that of entry %d: %w", index, err)
	}
	return nil
}

// writeQueueMark writes the mark of queue/ first: a crash before the other is written leaves a queue that is newer than raft/ says.
func writeQueueMark(files QueueFiles, m queueMark) error {
	for _, name := range []string{paths.MemberPath, paths.LogQueuePath} {
		if err := files.Replace("mark-member", name, []byte(m.String()+"\n")); err != nil {
			return err
		}
		if err := files.SyncDir("mark-member", path.Dir(name)); err != nil {
			return err
		}
	}
	return nil
}

func readQueueMark(files QueueFiles, name string) (queueMark, error) {
	text, err := readMark(files, name)
	id, number, isIndexed := strings.Cut(text, " ")
	m := queueMark{id: id}
	if err == nil && isIndexed {
		if m.index, err = strconv.ParseUint(number, 10, 64); err != nil {
			err = fmt.Errorf("%s is damaged: %w", name, err)
		}
	}
	return m, err
}

// readMark reads a file of one line. It returns "" if there is none.
func readMark(files QueueFiles, name string) (string, error) {
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
