package client

import (
	"os"
	"syscall"
)

const (
	// LocalSocket is where a daemon started by `make run` in the source tree listens.
	LocalSocket = "./var/run/socket/ganeti-query"
	// localQueue is where that daemon keeps its jobs.
	localQueue = "./var/lib/queue"
	// SystemSocket is where an installed daemon listens.
	SystemSocket = "/var/run/lockstep/socket/ganeti-query"
)

// SocketPath chooses the socket: the flag, $LOCKSTEP_SOCKET, the one of a daemon in
// the current directory, the system's. The choice is made once; a socket that does
// not answer is not replaced by the next one, which may belong to another queue.
func SocketPath(flag string, lookupEnv func(string) (string, bool)) string {
	if flag != "" {
		return flag
	}
	if path, _ := lookupEnv("LOCKSTEP_SOCKET"); path != "" {
		return path
	}
	if trusted(LocalSocket) {
		return LocalSocket
	}
	return SystemSocket
}

// passedOver tells whether SocketPath has left out a socket in the current directory.
func passedOver(chosen string) bool {
	_, err := os.Stat(LocalSocket)
	return err == nil && chosen == SystemSocket && !trusted(LocalSocket)
}

// stoppedHere tells whether the current directory has the queue of a daemon that does not
// run: the one that "make run" starts in the source tree.
func stoppedHere() bool {
	_, err := os.Stat(localQueue)
	return err == nil && !trusted(LocalSocket)
}

// trusted tells whether a socket exists that this user or root has made. Any user can put
// a socket into a directory like /tmp. A caller in such a directory must not send commands
// and secrets to it.
func trusted(path string) bool {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() != os.ModeSocket {
		return false
	}
	status, ok := info.Sys().(*syscall.Stat_t)
	return ok && (status.Uid == 0 || int(status.Uid) == os.Geteuid())
}
