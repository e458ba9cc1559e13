package datadir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"

	"lockstep/cmd/lockstepd/internal/settings"
	"lockstep/core/paths"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// CheckQueue checks, before it creates anything in queue/, that queue/ belongs to this data
// directory. A node that joins a cluster has no queue yet. A member without a mark gets one.
func CheckQueue(c settings.Config, files *persistence.OSFiles, identity *peer.Identity) error {
	member := identity != nil && HasLog(c.DataDir)
	if member {
		marked, err := persistence.CheckQueueMark(files)
		if err == nil && !marked {
			err = persistence.MarkQueue(files, uuid.NewString())
		}
		if err != nil {
			return explainLostQueue(c, identity, err)
		}
	}
	if !member {
		if err := checkNeedsLog(c, files); err != nil {
			return err
		}
	}
	if identity == nil || member || IsFounder(identity) {
		return explainLostQueue(c, identity, persistence.CheckQueue(files))
	}
	return nil
}

// checkNeedsLog refuses a queue whose files may be damaged and whose log is gone. Files that are right are made durable.
func checkNeedsLog(c settings.Config, files *persistence.OSFiles) error {
	boot, err := persistence.BootID()
	if err == nil {
		err = persistence.CheckNeedsLog(files, boot)
	}
	if needs, is := errors.AsType[*persistence.NeedsLogError](err); is {
		return fmt.Errorf("%w; nothing was started. If the log is elsewhere, put it back to %s, "+
			"start lockstepd as a member of its cluster, and stop it when it has caught up. "+
			"If the log is lost and other nodes have the queue, have this node take their copy: mv %s %s.lost, and start lockstepd as a member. "+
			"To run on with files of which the last ones may be damaged: rm %s",
			err, filepath.Join(c.DataDir, RaftDir),
			filepath.Join(c.DataDir, paths.QueueDir), filepath.Join(c.DataDir, paths.QueueDir), filepath.Join(c.DataDir, needs.Path))
	}
	return err
}

// explainLostQueue adds to a *persistence.LostQueueError what the operator can do. It returns any other error as it is.
func explainLostQueue(c settings.Config, identity *peer.Identity, err error) error {
	lost, is := errors.AsType[*persistence.LostQueueError](err)
	if !is {
		return err
	}
	queue, raft := filepath.Join(c.DataDir, paths.QueueDir), filepath.Join(c.DataDir, RaftDir)
	find := fmt.Sprintf("If %s is on a disk that is not mounted, mount it and start lockstepd again. ", queue)
	if identity == nil || IsFounder(identity) && !HasLog(c.DataDir) {
		return fmt.Errorf("the queue is lost: %w; nothing was started. %s"+
			"To begin with an empty queue, which gives out job ids from 1 again: echo 1 > %s",
			err, find, filepath.Join(c.DataDir, paths.VersionPath))
	}
	what, other := "lost", "else the queue has to come from a backup"
	if lost.Older {
		what = "an older copy"
		find = fmt.Sprintf("If the newer queue is elsewhere, put it back to %s and start lockstepd again. ", queue)
		other = "to go on with the older copy, which lacks later jobs and gives out their ids again: rm " +
			filepath.Join(c.DataDir, paths.LogQueuePath)
	}
	if IsFounder(identity) {
		return fmt.Errorf("the queue of this node, %s, is %s: %w; nothing was started. %s"+
			"It knows no other node of its cluster that has a copy: %s", identity.Name, what, err, find, other)
	}
	return fmt.Errorf("the queue of this node, %s, is %s: %w; nothing was started. %s"+
		"If it is lost, have this node come back as a new one, which takes a copy of the queue of the others: "+
		"mkdir %s.lost && mv %s/wal %s/snapshots %s.lost && start lockstepd", identity.Name, what, err, find, raft, raft, raft, raft)
}
