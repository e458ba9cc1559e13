package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lockstep/persistence"
)

// RequestRecovery makes the next start of the daemon turn this node into the only voter of its
// cluster, with the queue on its disk. It is for the permanent loss of a majority:
// acknowledged jobs may be missing on this node, and lost nodes that return would form a second
// cluster. The daemon must not run.
func RequestRecovery(dataDir string, now time.Time) error {
	if err := CheckDataDir(dataDir); err != nil {
		return err
	}
	identity, err := LoadIdentity(dataDir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s is to be the only voting member from the next start of lockstepd on\n",
		now.UTC().Format(time.RFC3339), identity.Name)
	return replaceFiles(dataDir, []nodeFile{{recoveryName, []byte(text), secretMode}})
}

// RecoveryRequested reports whether RequestRecovery was called and ClearRecovery was not.
func RecoveryRequested(dataDir string) (bool, error) {
	_, err := os.Stat(pathOf(dataDir, recoveryName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ClearRecovery removes the request durably, after the recovery. Without a request it does nothing.
func ClearRecovery(dataDir string) error {
	if err := os.Remove(pathOf(dataDir, recoveryName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return persistence.SyncDirectory(pathOf(dataDir, ""))
}
