package peer

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/core/confd"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/persistence"
)

// All nodes of a cluster have the same key of queries about the configuration. The first node makes it, and a node that joins gets it
// with its certificate. Afterwards it is a file that all nodes share, like the settings.

func confdKeyPath(dataDir string) string { return filepath.Join(dataDir, paths.ConfdKeyPath) }

// ensureConfdKey makes the key of ConfD on this node unless there is one.
func ensureConfdKey(dataDir string) error {
	key, err := readConfdKey(dataDir)
	if err != nil || len(key) > 0 {
		return err
	}
	return writeConfdKey(dataDir, confd.GenerateKey(func(count int) []byte {
		b := make([]byte, count)
		_, _ = rand.Read(b) // never fails
		return b
	}))
}

// readConfdKey returns the key of ConfD; nil if there is none.
func readConfdKey(dataDir string) ([]byte, error) {
	key, err := os.ReadFile(confdKeyPath(dataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return key, err
}

func writeConfdKey(dataDir string, key []byte) error {
	if err := confd.CheckKey(key); err != nil {
		return fmt.Errorf("read the key of configuration queries: %w", err)
	}
	mode := fs.FileMode(ownership.Own()[ownership.Key].Mode)
	return persistence.ReplaceFile(confdKeyPath(dataDir), key, mode)
}
