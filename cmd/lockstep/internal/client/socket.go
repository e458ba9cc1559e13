package client

import (
	"os"
	"syscall"
)

const (
	// LocalSocket is the socket of a daemon that `make run` starts in the source tree.
	LocalSocket = "./var/run/socket/ganeti-query"
	// localQueue is the queue directory of that daemon.
	localQueue = "./var/lib/queue"
	// SystemSocket is the socket of an installed daemon.
	SystemSocket = "/var/run/lockstep/socket/ganeti-query"
)

// SocketPath chooses the socket: the flag, $LOCKSTEP_SOCKET, the socket of a daemon in the current
// directory, the system's. If that socket does not answer, the next is not tried: it may belong
// to another queue.
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

// passedOver reports whether SocketPath ignores an untrusted socket in the current directory.
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
