package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lockstep/persistence"
)

// RequestRecovery leaves the wish that this node, at the next start of its daemon, be the only
// voting member of its cluster, with the queue as it is on its disk. That is for when
// a majority is lost for ever: what was acknowledged may be missing here, and a lost
// node that comes back would be a second cluster. The daemon must not run.
func RequestRecovery(dataDir string, now time.Time) error {
	if err := CheckDataDir(dataDir); err != nil {
		return err
	}
	identity, err := LoadIdentity(dataDir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s is to be the only voting member from the next start of lockstepd on\n", now.UTC().Format(time.RFC3339), identity.Name)
	return replaceFiles(dataDir, []nodeFile{{recoveryName, []byte(text), secretMode}})
}

// RecoveryRequested tells whether Recover has been called and Recovered has not.
func RecoveryRequested(dataDir string) (bool, error) {
	_, err := os.Stat(pathOf(dataDir, recoveryName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ClearRecovery says that the wish has been fulfilled.
func ClearRecovery(dataDir string) error {
	if err := os.Remove(pathOf(dataDir, recoveryName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return persistence.SyncDirectory(pathOf(dataDir, ""))
}
