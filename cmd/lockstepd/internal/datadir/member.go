package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/edge/peer"
)

// RaftDir is where a node keeps its identity and its log, below the data directory.
const RaftDir = "raft"

// MemberMark is a file in the data directory of every node of a cluster. Its queue is the
// cluster's, and a daemon without the cluster must not run it.
const MemberMark = "member-of-cluster"

// LoadIdentity returns the identity of this node in its cluster; nil: it belongs to none.
func LoadIdentity(dataDir string) (*peer.Identity, error) {
	identity, err := peer.LoadIdentity(dataDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return identity, err
	}
	for _, left := range []string{RaftDir, MemberMark} {
		path := filepath.Join(dataDir, left)
		if _, err := os.Stat(path); err == nil {
			return nil, fmt.Errorf("%s exists, but the identity of this node does not: "+
				"the queue may belong to a cluster, whose other nodes run its jobs. "+
				"Run lockstep node add --discard-queue to join the cluster again; to run a queue without a cluster, remove %s",
				path, path)
		}
	}
	return nil, nil //nolint:nilnil // the usual case
}

// HasLog reports whether this node has opened its consensus log before.
func HasLog(dataDir string) bool {
	_, err := os.Stat(filepath.Join(dataDir, RaftDir, "wal"))
	return err == nil
}

// IsFounder reports whether this node may create the log of its cluster: it is the first node,
// and knows no other node. If it knows others it has lost its log, and would create a second
// cluster.
func IsFounder(identity *peer.Identity) bool { return identity.Founder && len(identity.Peers) == 0 }
