package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Names of the sockets: for the queue, for locks and the configuration, and for diagnosis of the
// daemon.
const (
	LuxiSocket  = "ganeti-query"
	WconfSocket = "ganeti-wconfd"
	AdminSocket = "admin"
	// OutputSocket is where readers of a job's output and its process meet.
	OutputSocket = "lockstep-output"
)

// SocketPath is the path of a listening socket: <run>/socket/<name>.
func SocketPath(runDir, name string) string {
	return filepath.Join(SocketDir(runDir), name)
}

// groupExecute lets a group look up names in a directory.
const groupExecute = 0o010

// OpenToGroup lets a group reach the sockets of a run directory: it gives the group the run
// directory and the socket directory, with search permission. It does not change directories
// above the run directory.
func OpenToGroup(runDir string, group int) error {
	for _, dir := range []string{runDir, SocketDir(runDir)} {
		info, err := os.Stat(dir)
		if err == nil {
			err = os.Chown(dir, -1, group)
		}
		if err == nil && info.Mode().Perm()&groupExecute == 0 {
			err = os.Chmod(dir, info.Mode().Perm()|groupExecute)
		}
		if err != nil {
			return fmt.Errorf("open %s to group %d: %w", dir, group, err)
		}
	}
	return nil
}

// LivelockDir is the directory of the livelock files: <run>/livelocks.
func LivelockDir(runDir string) string {
	return filepath.Join(runDir, "livelocks")
}

// PriorityPath is the file that tells the process of job id its new priority:
// <run>/luxidmessages/<id>.prio, as in Ganeti.
func PriorityPath(runDir string, id int64) string {
	return filepath.Join(messageDir(runDir), strconv.FormatInt(id, 10)+".prio")
}

// BootNotePath is the file that says in which boot of the machine Ganeti's process of a job was started.
func BootNotePath(runDir string, id int64) string {
	return filepath.Join(messageDir(runDir), strconv.FormatInt(id, 10)+".boot")
}

// ProgressPath is the pipe in which the command of a job says its progress. It has a directory of its own: what writes to the path after
// the end of the pipe makes no file.
func ProgressPath(runDir string, id int64) string {
	return filepath.Join(messageDir(runDir), strconv.FormatInt(id, 10)+".progress", "pipe")
}

// RemoveProgress removes the pipe at a ProgressPath with its directory. The directory gets another name first, because a writer could make
// a file in it in the meantime.
func RemoveProgress(path string) error {
	dir := filepath.Dir(path)
	gone := dir + "~"
	if err := os.RemoveAll(gone); err != nil { // of a process that was killed here
		return err
	}
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

// UserProgressPath is that pipe if the command runs as another user than the daemon's, who owns the pipe and may search all directories
// of its path below those that contain the run directory (OpenToUsers), and may change none of them.
func UserProgressPath(runDir string, id int64) string {
	return filepath.Join(userProgressDir(runDir), strconv.FormatInt(id, 10), "pipe")
}

func userProgressDir(runDir string) string { return filepath.Join(runDir, "progress") }

// othersExecute lets all users look up names in a directory.
const othersExecute = 0o001

// OpenToUsers lets the commands of all users reach the pipes of UserProgressPath. In the run directory they may look up names, and no more.
func OpenToUsers(runDir string) error {
	dir := userProgressDir(runDir)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("open the run directory to users: %w", err)
	}
	for _, name := range []string{dir, runDir} {
		info, err := os.Lstat(name)
		switch {
		case err == nil && !info.IsDir():
			err = fmt.Errorf("%s is no directory", name)
		case err == nil && info.Mode().Perm()&othersExecute == 0:
			err = os.Chmod(name, info.Mode().Perm()|othersExecute)
		}
		if err != nil {
			return fmt.Errorf("open the run directory to users: %w", err)
		}
	}
	return nil
}

func messageDir(runDir string) string {
	return filepath.Join(runDir, "luxidmessages")
}
