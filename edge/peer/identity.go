package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"lockstep/core/paths"
)

// Identity is the identity of a node, the content of node.json.
type Identity struct {
	Name string `json:"name"`
	// UUID is new each time a node joins, also under a name that was used before, because
	// its log is a new one.
	UUID    string `json:"uuid"`
	Address string `json:"address"` // host:port
	// Voting says that the node is to have a vote. Without a vote the node only keeps a copy.
	Voting bool `json:"voting"`
	// Founder says that the node is the first of its cluster, which took over its queue.
	Founder bool `json:"founder"`
	// Peers are addresses of other nodes, which this node asks to be admitted.
	Peers []string `json:"peers"`
	// Lost are the names of nodes that a recovery has excluded, see RequestRecovery.
	Lost []string `json:"lost,omitempty"`
}

// LoadIdentity reads a node's identity. The error wraps fs.ErrNotExist if the node belongs to
// no cluster.
func LoadIdentity(dataDir string) (*Identity, error) {
	data, err := os.ReadFile(pathOf(dataDir, identityName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this node belongs to no cluster: %w", err)
	}
	if err != nil {
		return nil, err
	}
	var identity Identity
	err = json.Unmarshal(data, &identity)
	if err == nil {
		err = identity.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be used: %w; restore it from a backup, or move its directory aside and join again",
			pathOf(dataDir, identityName), err)
	}
	return &identity, nil
}

// Save replaces node.json of a node that belongs to a cluster, durably.
func (i *Identity) Save(dataDir string) error {
	if err := i.validate(); err != nil {
		return err
	}
	f, err := i.encode()
	if err != nil {
		return err
	}
	return replaceFiles(dataDir, []nodeFile{f})
}

func (i *Identity) encode() (nodeFile, error) {
	encoded, err := json.MarshalIndent(i, "", "  ")
	return nodeFile{identityName, append(encoded, '\n'), secretMode}, err
}

func (i *Identity) validate() error {
	if err := errors.Join(CheckName(i.Name), CheckAddress(i.Address)); err != nil {
		return err
	}
	if _, err := uuid.Parse(i.UUID); err != nil {
		return fmt.Errorf("parse the uuid of the node: %w", err)
	}
	for _, address := range i.Peers {
		if err := CheckAddress(address); err != nil {
			return fmt.Errorf("check the address of a peer: %w", err)
		}
	}
	for _, name := range i.Lost {
		if err := CheckName(name); err != nil {
			return fmt.Errorf("check the name of a lost node: %w", err)
		}
	}
	return nil
}

// AlreadyMemberError says that a node has an identity already.
type AlreadyMemberError struct{ Name, Directory string }

func (e *AlreadyMemberError) Error() string {
	return fmt.Sprintf(`this node belongs to a cluster already, as %s; to take it out of that one,
say "lockstep node remove %s" there, stop lockstepd here and move %s aside`, e.Name, e.Name, e.Directory)
}

// requireNoIdentity returns a *AlreadyMemberError if the node has an identity; nil if it has none.
func requireNoIdentity(dataDir string) error {
	identity, err := LoadIdentity(dataDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return &AlreadyMemberError{Name: identity.Name, Directory: pathOf(dataDir, "")}
}

// GanetiDirectoryError says that a data directory belongs to a node of a Ganeti cluster. Ganeti's
// way to distribute files and choose a master, and lockstep's log, exclude each other.
type GanetiDirectoryError struct{ Path string }

func (e *GanetiDirectoryError) Error() string {
	return fmt.Sprintf("%s is the data directory of a Ganeti node, because it has %s: "+
		"a node is in a cluster of lockstep or of Ganeti, never in both; choose another data directory",
		e.Path, paths.GanetiCertificatePath)
}

// IsGanetiDirectory reports whether a data directory belongs to a node of a Ganeti cluster.
func IsGanetiDirectory(dataDir string) (bool, error) {
	_, err := os.Lstat(filepath.Join(dataDir, paths.GanetiCertificatePath))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil, err
}

// CheckDataDir returns an error unless the directory exists and belongs to the user of this
// process. The daemon could not read files of another user. The error is a *GanetiDirectoryError
// if the directory is Ganeti's.
func CheckDataDir(dataDir string) error {
	ganeti, err := IsGanetiDirectory(dataDir)
	if err != nil {
		return fmt.Errorf("examine the data directory %s: %w", dataDir, err)
	}
	if ganeti {
		return &GanetiDirectoryError{Path: dataDir}
	}
	var status unix.Stat_t
	if err := unix.Stat(dataDir, &status); err != nil {
		return fmt.Errorf("examine the data directory %s: %w; create it as the user that lockstepd runs as, or choose another directory",
			dataDir, err)
	}
	if status.Mode&unix.S_IFMT != unix.S_IFDIR {
		return fmt.Errorf("data directory %s is not a directory", dataDir)
	}
	if int(status.Uid) != os.Geteuid() {
		return fmt.Errorf("data directory %s belongs to user %d: run this as the user that lockstepd runs as", dataDir, status.Uid)
	}
	return nil
}
