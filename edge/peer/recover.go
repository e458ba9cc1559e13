package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"lockstep/persistence"
)

// Recover leaves the wish that this node, at the next start of its daemon, be the only
// voting member of its cluster, with the queue as it is on its disk. That is for when
// a majority is lost for ever: what was acknowledged may be missing here, and a lost
// node that comes back would be a second cluster. The daemon must not run.
func Recover(dataDir string, now time.Time) error {
	if err := CheckDataDir(dataDir); err != nil {
		return err
	}
	identity, err := Load(dataDir)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s: %s is to be the only voting member from the next start of lockstepd on\n", now.UTC().Format(time.RFC3339), identity.Name)
	return replaceFiles(dataDir, []file{{recoverName, []byte(text), secretMode}})
}

// Recovering tells whether Recover has been called and Recovered has not.
func Recovering(dataDir string) (bool, error) {
	_, err := os.Stat(pathOf(dataDir, recoverName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Recovered says that the wish has been fulfilled.
func Recovered(dataDir string) error {
	if err := os.Remove(pathOf(dataDir, recoverName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return persistence.SyncDirectory(pathOf(dataDir, ""))
}
