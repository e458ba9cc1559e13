package sim

import (
	"fmt"

	"lockstep/core/lock"
)

// programHasLocks: a program was told that it has the locks that it wants.
type programHasLocks struct{ program *program }

// checkPrograms: no program and job, and no two programs, work with locks that exclude each other. A program works with its locks from the
// answer that grants them until it asks to be freed of them, or dies; in a cluster at most until another mastership begins, without locks.
type checkPrograms struct{ former map[*program]bool } // with locks of a former mastership

func (*checkPrograms) Name() string { return "locks of programs" }

func (c *checkPrograms) See(w *World, event any) error {
	switch e := event.(type) {
	case deciderStarted:
		if w.oracle != nil {
			c.former = map[*program]bool{}
			for _, p := range w.programs {
				c.former[p] = true
			}
		}
	case programHasLocks:
		if w.oracle != nil && !e.program.process.onDecider() {
			return nil
		}
		delete(c.former, e.program)
		for _, user := range w.lockUsers() {
			if user.leftOnOtherNode(lockUser{process: e.program.process}) {
				continue
			}
			if l, clash := conflict(user.heldLocks, e.program.wants); clash {
				return fmt.Errorf("job %d and %s both work with %s", user.process.job, e.program.name, l)
			}
		}
		for _, other := range w.programs {
			if other == e.program || !other.has || c.former[other] {
				continue
			}
			if l, clash := conflict(other.wants, e.program.wants); clash {
				return fmt.Errorf("%s and %s both work with %s", other.name, e.program.name, l)
			}
		}
	case opcodeStarted:
		for _, user := range w.lockUsers() {
			if user.process.job != e.job {
				continue
			}
			for _, p := range w.programs {
				if l, clash := conflict(user.heldLocks, p.wants); clash && p.has && !c.former[p] {
					return fmt.Errorf("%s and job %d both work with %s", p.name, e.job, l)
				}
			}
		}
	}
	return nil
}

// mayHaveProgram reports whether a program may have a lock that excludes one of a list of names and modes, or waits for one.
func (w *World) mayHaveProgram(items [][2]string) bool {
	for _, p := range w.programs {
		var names [][2]string
		for _, i := range p.wants {
			mode := "shared"
			if i.Mode == lock.Exclusive {
				mode = "exclusive"
			}
			names = append(names, [2]string{i.Lock.String(), mode})
		}
		if excludeEachOther(items, names) {
			return true
		}
	}
	return false
}
