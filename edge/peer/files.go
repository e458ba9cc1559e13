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

	formerPrefix = ".new-" // of files that a former version was writing
)

const (
	directoryMode = 0o700
	secretMode    = 0o600
	publicMode    = 0o644
)

func pathOf(dataDir, name string) string { return filepath.Join(dataDir, directoryName, name) }

// nodeFile is one to be written.
type nodeFile struct {
	name string
	data []byte
	mode fs.FileMode
}

// replaceFiles writes files of a node one after the other. Each of them is durable
// before the next one is begun.
func replaceFiles(dataDir string, files []nodeFile) error {
	for _, f := range files {
		if err := persistence.ReplaceFile(pathOf(dataDir, f.name), f.data, f.mode); err != nil {
			return err
		}
	}
	return nil
}

// makeDirectory makes the node's directory, durably, and removes what a crash has
// left half written in it. One that holds something else belongs to a former
// cluster, whose log must not be mixed with that of another.
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
			// An attempt that was cut off has left it; it is replaced.
		default:
			return &LeftoverError{Path: filepath.Join(path, name)}
		}
	}
	return persistence.SyncDirectory(dataDir)
}

// LeftoverError says that the node's directory holds what it should not.
type LeftoverError struct{ Path string }

func (e *LeftoverError) Error() string {
	return fmt.Sprintf("%s is there, but this node belongs to no cluster: it is of a former one; move %s aside and try again", e.Path, filepath.Dir(e.Path))
}
