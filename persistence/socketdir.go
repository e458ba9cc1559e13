package persistence

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/core/ownership"
)

// SocketDir is the directory of the sockets, unless another one is chosen: <run>/socket.
func SocketDir(runDir string) string { return filepath.Join(runDir, "socket") }

// MakeSocketDir makes dir, the directory of the sockets, if it is missing. If dir is another
// directory than <run>/socket, it makes <run>/socket a symbolic link to dir: job processes know
// the run directory only. The caller holds the lock of the run directory. A link to another
// directory is replaced, and so is a directory that has only sockets, which are stale.
func MakeSocketDir(runDir, dir string, rules ownership.Rules) error {
	link := SocketDir(runDir)
	target, err := os.Readlink(link)
	linked := err == nil
	if dir == link {
		if linked {
			if err := os.Remove(link); err != nil {
				return fmt.Errorf("remove the link to a former directory of sockets: %w", err)
			}
		}
		return makeDirs(rules, newDir{dir, ownership.SocketDir})
	}
	if err := makeDirs(rules, newDir{dir, ownership.SocketDir}); err != nil {
		return err
	}
	if linked && target == dir {
		return nil
	}
	if !linked {
		if err := removeStaleSockets(link); err != nil {
			return err
		}
	}
	return replaceLink(dir, link)
}

// removeStaleSockets removes a directory of sockets; an absent one is no error. If the directory has another file, this is the error, and
// the directory stays.
func removeStaleSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if entry.Type() != fs.ModeSocket {
			return fmt.Errorf("%s is in the place of a link to the directory of sockets, and has a file that is no socket: move %s away", dir, path)
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

// replaceLink makes link lead to target. A reader sees the old link or the new one.
func replaceLink(target, link string) error {
	temporary := link + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, link)
}
