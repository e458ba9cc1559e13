package sim

import (
	"fmt"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkReplay: the files of the locks are consistent at every start of a daemon, after a power
// loss, when the journal is folded, and in the end. Changes from before the machine's last boot
// do not count.
type checkReplay struct{}

func (checkReplay) Name() string { return "the locks' files replay" }

func (checkReplay) See(w *World, event any) error {
	switch e := event.(type) {
	case otherFileChanged:
		if e.path != paths.LocksPath {
			return nil
		}
	case powerLost, deciderStarted, finished:
	default:
		return nil
	}
	if _, err := w.lockState(); err != nil {
		return err
	}
	return nil
}

// lockFiles caches the decoded files of the lock manager. Several checkers read them at the start
// of a daemon and after a power loss.
type lockFiles struct {
	journal, snapshot *simdisk.File
	lengths           [2]int // of both files: a power loss may cut them
	boot              string
	state             lock.Snapshot
}

// lockState returns the state in the files of the lock manager on the deciding node. It must not
// be changed.
func (w *World) lockState() (lock.Snapshot, error) {
	n := w.decider
	if n == nil {
		return lock.Snapshot{}, nil
	}
	is := lockFiles{journal: n.disk.Find(paths.LocksJournalPath), snapshot: n.disk.Find(paths.LocksPath), boot: n.machine.boot()}
	for i, f := range []*simdisk.File{is.journal, is.snapshot} {
		if f != nil {
			is.lengths[i] = len(f.Data)
		}
	}
	if was := w.locks; was != nil && was.journal == is.journal && was.snapshot == is.snapshot && was.lengths == is.lengths && was.boot == is.boot {
		return was.state, nil
	}
	err := is.read()
	if err == nil {
		w.locks = &is
	}
	return is.state, err
}

func (f *lockFiles) read() error {
	var changes []byte
	if f.journal != nil {
		boot, rest, err := lock.CutJournalHeader(f.journal.Data)
		if err != nil {
			return fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
		}
		if boot != "" && boot != f.boot {
			return nil
		}
		changes = rest
	}
	var base lock.Snapshot
	if f.snapshot != nil {
		var err error
		if base, err = lock.Decode(f.snapshot.Data); err != nil {
			return fmt.Errorf("%s: %w", paths.LocksPath, err)
		}
	}
	replayed, err := lock.Replay(base, changes)
	if err != nil {
		return fmt.Errorf("%s: %w", paths.LocksJournalPath, err)
	}
	f.state = replayed.Snapshot
	return nil
}
