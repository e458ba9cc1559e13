package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/persistence"
)

// Names below the data directory.
const (
	directoryName = "raft"

	identityName       = "node.json"
	caName             = "ca.pem"
	caKeyName          = "ca.key"
	certificateName    = "node.pem"
	certificateKeyName = "node.key"
	tokensName         = "tokens.json"
	recoveryName       = "recover"

	formerPrefix = ".new-" // prefix of temporary files of an earlier version of lockstep
)

const (
	directoryMode = 0o700
	secretMode    = 0o600
	publicMode    = 0o644
)

func pathOf(dataDir, name string) string { return filepath.Join(dataDir, directoryName, name) }

// nodeFile is the name, content and mode of a file below the node's directory.
type nodeFile struct {
	name string
	data []byte
	mode fs.FileMode
}

// replaceFiles replaces files one after the other. Each is durable before the next is written.
func replaceFiles(dataDir string, files []nodeFile) error {
	for _, f := range files {
		if err := persistence.ReplaceFile(pathOf(dataDir, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// makeDirectory makes the node's directory, durably, and removes temporary files that a crash has
// left in it. If the directory holds anything else, the node belonged to another cluster: the
// error is a *LeftoverError, because the logs of two clusters must not be mixed.
func makeDirectory(dataDir string) error {
	path := filepath.Join(dataDir, directoryName)
	if err := os.Mkdir(path, directoryMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(path, directoryMode); err != nil {
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch name := entry.Name(); {
		case persistence.IsTemp(name), strings.HasPrefix(name, formerPrefix):
			if err := os.Remove(filepath.Join(path, name)); err != nil {
				return err
			}
		case name == caName, name == caKeyName, name == certificateName, name == certificateKeyName, name == tokensName:
			// A join that did not complete has left this file; it is replaced.
		default:
			return &LeftoverError{Path: filepath.Join(path, name)}
		}
	}
	return persistence.SyncDirectory(dataDir)
}

// LeftoverError says that the node's directory holds a file of a former cluster.
type LeftoverError struct{ Path string }

func (e *LeftoverError) Error() string {
	return fmt.Sprintf("%s is there, but this node belongs to no cluster: it is of a former one; move %s aside and try again",
		e.Path, filepath.Dir(e.Path))
}
