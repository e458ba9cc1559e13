package client

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"lockstep/cmd/internal/places"
)

const (
	// LocalSocket is the socket of a daemon that `make run` starts in the source tree.
	LocalSocket = "./var/run/socket/" + socketName
	// localQueue is the queue directory of that daemon.
	localQueue = "./var/lib/queue"
	// SystemSocket is the socket of an installed daemon.
	SystemSocket = places.SystemSockets + "/" + socketName
	// GanetiSocket is the socket of lockstep in the place of ganeti-luxid.
	GanetiSocket = "/run/ganeti/socket/" + socketName
	// ganetiProgram leads to lockstepd if lockstep is in that place.
	ganetiProgram = "/usr/sbin/ganeti-luxid"

	socketName = "ganeti-query"
)

// Whose says which of the daemons of a machine a socket belongs to.
type Whose string

// The daemons of a machine. The user has named neither if the socket was given by a path.
const (
	Unnamed Whose = ""
	Users   Whose = "user"
	Systems Whose = "system"
)

// Choice is the choice of a daemon by flags and the environment.
type Choice struct {
	Socket      string // --socket; "": not given
	Daemon      Whose  // --daemon
	Environment places.Environment
}

// Find returns the socket and whose daemon it is: the flags, $LOCKSTEP_SOCKET, the socket of a
// daemon in the current directory, that of the user's daemon, the system's, and if that one does not
// exist, that of lockstep in the place of ganeti-luxid. If that socket does not answer, the next is not
// tried: it may belong to another queue.
func (c Choice) Find() (path string, whose Whose) {
	switch c.Daemon {
	case Users:
		return c.userSocket(), Users
	case Systems:
		return SystemSocket, Systems
	}
	if c.Socket != "" {
		return c.Socket, Unnamed
	}
	if path, _ := c.Environment.Lookup("LOCKSTEP_SOCKET"); path != "" {
		return path, Unnamed
	}
	if trusted(LocalSocket) {
		return LocalSocket, Unnamed
	}
	if path := c.userSocket(); c.Environment.UserMode() && trusted(path) {
		return path, Users
	}
	if servesGanetis(SystemSocket, ganetiProgram) {
		return GanetiSocket, Unnamed
	}
	return SystemSocket, Systems
}

// servesGanetis reports whether the machine has no socket of an installed daemon, and lockstep in the place of ganeti-luxid.
func servesGanetis(system, program string) bool {
	_, err := os.Lstat(system)
	target, linkErr := os.Readlink(program)
	return errors.Is(err, fs.ErrNotExist) && linkErr == nil && filepath.Base(target) == "lockstepd"
}

// userSocket returns the socket of the user's daemon, whether it exists or not: in the runtime
// directory, or beside the data if the daemon was started without one.
func (c Choice) userSocket() string {
	dirs, err := c.Environment.User()
	if err != nil {
		return ""
	}
	path := filepath.Join(dirs.Sockets, socketName)
	if beside := filepath.Join(dirs.Run, "socket", socketName); !trusted(path) && trusted(beside) {
		return beside
	}
	return path
}

// passedOver reports whether Find ignores an untrusted socket in the current directory.
func passedOver(chosen string) bool {
	_, err := os.Stat(LocalSocket)
	return err == nil && chosen == SystemSocket && !trusted(LocalSocket)
}

// stoppedHere reports whether the current directory has the queue of a stopped daemon of
// `make run`.
func stoppedHere() bool {
	_, err := os.Stat(localQueue)
	return err == nil && !trusted(LocalSocket)
}

// trusted reports whether a socket exists that belongs to this user or root. Any user can put a
// socket into a directory like /tmp; a caller there must not send commands and secrets to it.
func trusted(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && (status.Uid == 0 || int(status.Uid) == os.Geteuid())
}
