package persistence

import "path/filepath"

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
