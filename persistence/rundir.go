package persistence

import (
	"path/filepath"
	"strconv"
)

// Names of the sockets for clients and job processes: for the queue, and for
// locks and the configuration. AdminSocket is for who looks into the daemon.
const (
	LuxiSocket  = "ganeti-query"
	WconfSocket = "ganeti-wconfd"
	AdminSocket = "admin"
)

// SocketPath is the path of a listening socket: <run>/socket/<name>.
func SocketPath(runDir, name string) string {
	return filepath.Join(socketDir(runDir), name)
}

func socketDir(runDir string) string {
	return filepath.Join(runDir, "socket")
}

// LivelockDir is the directory of the livelock files: <run>/livelocks.
func LivelockDir(runDir string) string {
	return filepath.Join(runDir, "livelocks")
}

// PriorityPath is the message by which job id's process learns of another
// priority: <run>/luxidmessages/<id>.prio, Ganeti's place for it.
func PriorityPath(runDir string, id int64) string {
	return filepath.Join(messageDir(runDir), strconv.FormatInt(id, 10)+".prio")
}

func messageDir(runDir string) string {
	return filepath.Join(runDir, "luxidmessages")
}
