// Package datadir is for the commands that work on the data directory of a node while its daemon is stopped. It chooses the
// directory and takes the lock that a daemon takes. It owns nothing; the lock ends with the process.
package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/cmd/internal/places"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

const (
	// localDataDir is the data directory of a daemon started by `make run` in the source tree,
	// systemDataDir that of an installed daemon.
	localDataDir  = "./var/lib"
	systemDataDir = "/var/lib/lockstep"
)

// Help is the help of the flag --data-dir.
const Help = "data `DIRECTORY` of this node's lockstepd (default " + localDataDir +
	" if that holds a queue, otherwise that of your own daemon, or as root " + systemDataDir + ")"

// Choose returns the data directory for a command; its daemon may be stopped. The flag comes first, if it is not empty. ./var/lib is
// next, if it holds a queue. A user whose daemon has directories of its own (places.Environment.UserMode) gets those, whether they exist
// or not. All others get the system's.
func Choose(flag string) string {
	if flag != "" {
		return flag
	}
	if info, err := os.Stat(filepath.Join(localDataDir, paths.QueueDir)); err == nil && info.IsDir() {
		return localDataDir
	}
	if current := places.Current(); current.UserMode() {
		if dirs, err := current.User(); err == nil {
			return dirs.Data
		}
	}
	return systemDataDir
}

// WhileStopped calls do while it prevents a daemon from running on the data directory.
func WhileStopped(dataDir string, do func() error) (err error) {
	if err := peer.CheckDataDir(dataDir); err != nil {
		return err
	}
	return whileLocked(dataDir, ownership.Rules{}, do)
}

// WhileGanetiStopped is WhileStopped for the data directory of a Ganeti node. Its files have the owners of Ganeti mode. It prevents
// also a ganeti-wconfd without ganeti-luxid, which does not lock the queue.
func WhileGanetiStopped(dataDir string, owners ownership.Rules, do func() error) error {
	return whileLocked(dataDir, owners, func() (err error) {
		lock, err := persistence.LockData(dataDir)
		var locked *persistence.DataLockedError
		if errors.As(err, &locked) {
			return fmt.Errorf("stop ganeti-wconfd first: %w", locked)
		}
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release()) }()
		return do()
	})
}

func whileLocked(dataDir string, owners ownership.Rules, do func() error) (err error) {
	const directoryMode = 0o750 // the mode that the daemon uses
	err = os.Mkdir(filepath.Join(dataDir, paths.QueueDir), directoryMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	lock, err := persistence.LockQueue(dataDir, owners)
	var locked *persistence.QueueLockedError
	if errors.As(err, &locked) {
		return fmt.Errorf("stop the daemon first: %w", locked)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	return do()
}
