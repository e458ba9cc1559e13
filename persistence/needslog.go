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

// inheritedMark begins the mark, before the boot id, when a daemon has found that of an earlier daemon of the same boot.
const inheritedMark = "not settled "

// MarkNeedsLog records in queue/ that its files depend on the log from now on, with the id of the machine's boot. A daemon calls it
// once, before it applies the first entry without a sync. A mark of another boot stays: the files need the log that is about to be
// applied. A mark of this boot is of a daemon that has not settled its files. It has crashed, or a sync has failed and perhaps could not
// be recorded; the kernel reports such an error once, so that the next sync would succeed. Either way the files need the log.
func MarkNeedsLog(files LoggedFiles, boot string) error {
	mark, err := readMark(files, paths.NeedsLogPath)
	switch {
	case err != nil:
	case mark == "":
		err = writeNeedsLog(files, boot)
	case mark == boot:
		err = writeNeedsLog(files, inheritedMark+boot)
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
// again; without it, a mark of another boot, or of another daemon, stays. After an error the mark stays; if a sync has failed, it says
// so. It is not called by a daemon that has had a failed sync.
func SettleFiles(files LoggedFiles, boot string, reapplied bool) error {
	mark, err := readMark(files, paths.NeedsLogPath)
	if err != nil || mark == "" || mark != boot && !reapplied {
		return err
	}
	if err := files.SyncAll("settle"); err != nil {
		// The kernel reports this failure once. Unless it is recorded, the next sync succeeds, and the files count as right.
		return errors.Join(err, MarkSyncFailed(files))
	}
	// Only when all files are durable: without the mark the next start trusts them.
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
	mark, err := readMark(files, paths.NeedsLogPath)
	switch {
	case err != nil:
		return err
	case mark != "" && mark != boot:
		return &NeedsLogError{paths.NeedsLogPath}
	default:
		return SettleFiles(files, boot, false)
	}
}
