package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"

	"lockstep/core/paths"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// checkQueue checks, before it creates anything in queue/, that queue/ belongs to this data
// directory. A node that joins a cluster has no queue yet. A member without a mark gets one.
func checkQueue(c Config, files *persistence.OSFiles, identity *peer.Identity) error {
	member := identity != nil && hasLog(c.DataDir)
	if member {
		marked, err := persistence.CheckQueueMark(files)
		if err == nil && !marked {
			err = persistence.MarkQueue(files, uuid.NewString())
		}
		if err != nil {
			return explainLostQueue(c, identity, err)
		}
	}
	if identity == nil || member || isFounder(identity) {
		return explainLostQueue(c, identity, persistence.CheckQueue(files))
	}
	return nil
}

// explainLostQueue adds to an error what the operator can do.
func explainLostQueue(c Config, identity *peer.Identity, err error) error {
	if _, lost := errors.AsType[*persistence.LostQueueError](err); !lost {
		return err
	}
	queue := filepath.Join(c.DataDir, paths.QueueDir)
	const mount = "If %s is on a disk that is not mounted, mount it and start lockstepd again. "
	if identity == nil || isFounder(identity) && !hasLog(c.DataDir) {
		return fmt.Errorf("the queue is lost: %w; nothing was started. "+mount+
			"To begin with an empty queue, which gives out job ids from 1 again: echo 1 > %s", err, queue, filepath.Join(c.DataDir, paths.VersionPath))
	}
	if isFounder(identity) {
		return fmt.Errorf("the queue of this node, %s, is lost: %w; nothing was started. "+mount+
			"It knows no other node of its cluster that has a copy: else the queue has to come from a backup", identity.Name, err, queue)
	}
	raft := filepath.Join(c.DataDir, raftDirName)
	return fmt.Errorf("the queue of this node, %s, is lost: %w; nothing was started. "+mount+
		"If it is lost, have this node come back as a new one, which takes a copy of the queue of the others: "+
		"mkdir %s.lost && mv %s/wal %s/snapshots %s.lost && start lockstepd", identity.Name, err, queue, raft, raft, raft, raft)
}
