package sim

import (
	"fmt"

	"lockstep/core/lock"
)

// checkLocks: no two jobs, on any nodes, work with locks that exclude each other. Commands that have outlived
// their process count. In the end no owner holds or wants a lock.
type checkLocks struct{}

func (checkLocks) Name() string { return "lock exclusion" }

// lockUser is a process, or a command that outlived its process, with the locks it works with.
type lockUser struct {
	process   *process
	heldLocks []lock.Item
}

func (w *World) lockUsers() []lockUser {
	var all []lockUser
	for _, n := range w.nodes {
		for _, p := range n.machine.processes {
			if p.heldLocks != nil {
				all = append(all, lockUser{p, p.heldLocks})
			}
		}
		for _, c := range n.machine.commands {
			if c.heldLocks != nil && (c.process.life.Over || c.survived) {
				all = append(all, lockUser{c.process, c.heldLocks})
			}
		}
	}
	return all
}

func (checkLocks) See(w *World, event any) error {
	switch event.(type) {
	case opcodeStarted:
		all := w.lockUsers()
		for i, a := range all {
			for _, b := range all[:i] {
				if a.process == b.process || b.leftOnOtherNode(a) || a.leftOnOtherNode(b) {
					continue
				}
				if l, clash := conflict(a.heldLocks, b.heldLocks); clash {
					return fmt.Errorf("jobs %d and %d both work with %s", b.process.job, a.process.job, l)
				}
			}
		}
	case finished:
		snapshot, err := w.lockState()
		if err != nil {
			return err
		}
		if len(snapshot.Holdings)+len(snapshot.Pending) > 0 {
			return fmt.Errorf("everything has ended, but locks are held or wanted: %s", lock.Encode(snapshot))
		}
	}
	return nil
}

// leftOnOtherNode reports whether the job's process was killed, its command lives, and its node
// is not the master. The fence does not promise the end of such a command on a machine without guard.
func (x lockUser) leftOnOtherNode(other lockUser) bool {
	m := x.process.machine
	return !m.world.options.Guard && x.process.life.Over && m != other.process.machine
}

// conflict returns a lock that two owners hold in modes that exclude each other; false if there is none.
func conflict(a, b []lock.Item) (lock.Lock, bool) {
	for _, x := range a {
		for _, y := range b {
			if x.Mode != lock.Exclusive && y.Mode != lock.Exclusive {
				continue
			}
			if x.Lock == y.Lock || x.Lock.Level() == y.Lock.Level() && (x.Lock.IsGroup() || y.Lock.IsGroup()) {
				return x.Lock, true
			}
		}
	}
	return lock.Lock{}, false
}
