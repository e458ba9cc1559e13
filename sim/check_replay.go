package sim

import (
	"fmt"

	"lockstep/actors/core/layout"
	"lockstep/actors/core/lock"
)

// checkReplay: whoever reads the files of the locks finds what makes sense: at
// every start of a daemon, after power loss, when they are folded, and in the end.
// What was written before the machine's last boot counts for nothing.
type checkReplay struct{}

func (checkReplay) Name() string { return "the locks' files replay" }

func (checkReplay) See(w *World, event any) error {
	switch e := event.(type) {
	case otherFileChanged:
		if e.path != layout.LocksPath {
			return nil
		}
	case powerLost, daemonStarted, finished:
	default:
		return nil
	}
	if _, err := w.lockState(); err != nil {
		return err
	}
	return nil
}

// lockState is what the files of the lock manager say.
func (w *World) lockState() (lock.Snapshot, error) {
	var snapshot lock.Snapshot
	var changes []byte
	if f := w.disk.find(layout.LocksJournalPath); f != nil {
		boot, rest, err := lock.CutHeader(f.data)
		if err != nil {
			return snapshot, fmt.Errorf("%s: %w", layout.LocksJournalPath, err)
		}
		if boot != "" && boot != w.machine.boot() {
			return snapshot, nil
		}
		changes = rest
	}
	if f := w.disk.find(layout.LocksPath); f != nil {
		var err error
		if snapshot, err = lock.Decode(f.data); err != nil {
			return snapshot, fmt.Errorf("%s: %w", layout.LocksPath, err)
		}
	}
	replayed, err := lock.Replay(snapshot, changes)
	if err != nil {
		return snapshot, fmt.Errorf("%s: %w", layout.LocksJournalPath, err)
	}
	return replayed.Snapshot, nil
}
