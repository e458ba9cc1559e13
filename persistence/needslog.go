package persistence

import (
	"errors"
	"fmt"
	"io/fs"

	"lockstep/core/paths"
)

// LoggedFiles are the files of a node that applies the entries of its consensus log without a sync of each file.
// [OSFiles] and the simulated disk implement them.
type LoggedFiles interface {
	QueueFiles
	Remove(op, path string) error
	// SyncAll makes all changes of replicated files durable, see [FileSystems.Sync].
	SyncAll(op string) error
}

// failedMark is in the mark in the place of a boot id when a sync has failed: the files may be damaged in any boot.
const failedMark = "a sync has failed"

// NeedsLogError says that files in queue/ may be damaged or old, and that this node has no log to repair them. A node that applied
// entries of a log without a sync of each file has lost its power, or a sync has failed, and the log is gone.
type NeedsLogError struct{ Path string }

func (e *NeedsLogError) Error() string {
	return e.Path + " says that files of the queue may be damaged, which the log of this node repairs, and this node has no log"
}

// MarkNeedsLog records in queue/ that its files depend on the log from now on, with the id of the machine's boot. It is called
// before the first entry is applied without a sync. A mark that exists stays: if it is of another boot, the files
// need the log that is about to be applied.
func MarkNeedsLog(files LoggedFiles, boot string) error {
	mark, err := readQueueMark(files, paths.NeedsLogPath)
	if err == nil && mark == "" {
		err = writeNeedsLog(files, boot)
	}
	if err != nil {
		return fmt.Errorf("mark the queue as one that needs its log: %w", err)
	}
	return nil
}

// MarkSyncFailed records in queue/ that a sync has failed: the files need the log, also in this boot.
func MarkSyncFailed(files LoggedFiles) error { return writeNeedsLog(files, failedMark) }

func writeNeedsLog(files LoggedFiles, content string) error {
	if err := files.Replace("mark-log", paths.NeedsLogPath, []byte(content+"\n")); err != nil {
		return err
	}
	return files.SyncDir("mark-log", paths.QueueDir)
}

// SettleFiles makes all files durable, and then removes the mark of MarkNeedsLog: the files do not depend on the log any longer.
// No entry may be applied meanwhile. reapplied says that all entries that may have been applied in a former boot were applied
// again; without it, a mark of another boot stays. After an error the mark stays; if a sync has failed, it says so.
func SettleFiles(files LoggedFiles, boot string, reapplied bool) error {
	mark, err := readQueueMark(files, paths.NeedsLogPath)
	if err != nil || mark == "" || mark != boot && !reapplied {
		return err
	}
	if err := files.SyncAll("settle"); err != nil {
		return errors.Join(err, MarkSyncFailed(files))
	}
	return removeNeedsLog(files)
}

func removeNeedsLog(files LoggedFiles) error {
	if err := files.Remove("mark-log", paths.NeedsLogPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return files.SyncDir("mark-log", paths.QueueDir)
}

// CheckNeedsLog is for a node without a log. If the mark is of this boot, the files are right, and it makes them durable and
// removes the mark. If the mark is of another boot, it returns a [*NeedsLogError].
func CheckNeedsLog(files LoggedFiles, boot string) error {
	mark, err := readQueueMark(files, paths.NeedsLogPath)
	switch {
	case err != nil:
		return err
	case mark != "" && mark != boot:
		return &NeedsLogError{paths.NeedsLogPath}
	default:
		return SettleFiles(files, boot, false)
	}
}
