package sim

import (
	"fmt"

	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/sim/simdisk"
)

// checkReplay: the files of the locks are consistent at every start of a daemon, after a power
// loss, when the journal is folded, and in the end. Those that Ganeti reads name no free lock. Changes from before the machine's last boot
// do not count.
type checkReplay struct{}

func (checkReplay) Name() string { return "the locks' files replay" }

func (checkReplay) See(w *World, event any) error {
	switch e := event.(type) {
	case otherFileChanged:
		if e.path != paths.LocksPath && e.path != paths.FreeLocksPath {
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
	files   [len(lockPaths)]*simdisk.File
	lengths [len(lockPaths)]int // a power loss may cut the files
	boot    string
	state   lock.Snapshot
}

// lockPaths are the files of the lock manager: each part's file and journal.
var lockPaths = [...]string{paths.LocksPath, paths.LocksJournalPath, paths.FreeLocksPath, paths.FreeLocksJournalPath}

// lockState returns the state in the files of the lock manager on the deciding node. It must not
// be changed.
func (w *World) lockState() (lock.Snapshot, error) {
	n := w.decider
	if n == nil {
		return lock.Snapshot{}, nil
	}
	is := lockFiles{boot: n.machine.boot()}
	for i, path := range lockPaths {
		if f := n.disk.Find(path); f != nil {
			is.files[i], is.lengths[i] = f, len(f.Data)
		}
	}
	if was := w.locks; was != nil && was.files == is.files && was.lengths == is.lengths && was.boot == is.boot {
		return was.state, nil
	}
	ganeti, err := is.read(0)
	if err != nil {
		return lock.Snapshot{}, err
	}
	if _, free := ganeti.Split(); len(free.Holdings)+len(free.Pending) > 0 {
		return lock.Snapshot{}, fmt.Errorf("%s and its journal name free locks: %s", paths.LocksPath, lock.Encode(free))
	}
	free, err := is.read(2)
	if err != nil {
		return lock.Snapshot{}, err
	}
	is.state = lock.Join(ganeti, free)
	w.locks = &is
	return is.state, nil
}

// read decodes the file with this index and its journal, which follows. After a reboot of the machine they are empty.
func (f *lockFiles) read(at int) (lock.Snapshot, error) {
	snapshot, journal := f.files[at], f.files[at+1]
	var changes []byte
	if journal != nil {
		boot, rest, err := lock.CutJournalHeader(journal.Data)
		if err != nil {
			return lock.Snapshot{}, fmt.Errorf("%s: %w", lockPaths[at+1], err)
		}
		if boot != "" && boot != f.boot {
			return lock.Snapshot{}, nil
		}
		changes = rest
	}
	var base lock.Snapshot
	if snapshot != nil {
		var err error
		if base, err = lock.Decode(snapshot.Data); err != nil {
			return lock.Snapshot{}, fmt.Errorf("%s: %w", lockPaths[at], err)
		}
	}
	replayed, err := lock.Replay(base, changes)
	if err != nil {
		return lock.Snapshot{}, fmt.Errorf("%s: %w", lockPaths[at+1], err)
	}
	return replayed.Snapshot, nil
}
