package sim

import (
	"fmt"
	"testing"
	"time"

	"lockstep/sim/simdisk"
)

// ruledJobs submits jobs that lock the same node, depend on each other and are limited. A rule
// that pauses all of them is added before the jobs are submitted, or while they run, and is
// deleted later.
func ruledJobs(before bool) func(w *World) func() bool {
	return func(w *World) func() bool {
		c, o := w.newClient(), w.newClient()
		var sent *submission
		ruled := false
		submit := func() {
			sent = c.submit([][]OpSpec{
				{"run run_for=0.3 locks=node/a limit=1:x", "run run_for=0.01 locks=node/a limit=1:x"},
				{"run run_for=0.01 locks=node/a after=-1"},
				{"run run_for=0.01 after=-2:error"},
				{"run run_for=0.01 exit=1 limit=1:x", "delay 0.1 limit=1:x"},
			}, nil)
		}
		rule := rule{uuid: fmt.Sprintf("%08x-0000-4000-8000-%012x", 1, 1), predicates: []byte(`[]`), action: "PAUSE"}
		var add, remove func()
		add = func() {
			o.replaceFilter(rule, func(_ string, err error) {
				if err != nil {
					o.later(100*time.Millisecond, add)
					return
				}
				if before {
					c.whenReady(submit)
				}
				o.later(500*time.Millisecond, remove)
			})
		}
		remove = func() {
			o.deleteFilter(rule.uuid, func(err error) {
				if ruled = err == nil || refusedAsUnknown(err); !ruled {
					o.later(100*time.Millisecond, remove)
				}
			})
		}
		if before {
			o.whenReady(add)
		} else {
			c.whenReady(submit)
			o.later(100*time.Millisecond, func() { o.whenReady(add) })
		}
		return func() bool { return ruled && sent != nil && sent.answered }
	}
}

// stepFaults are the faults that hit one step.
var stepFaults = map[string]func(w *World) bool{
	"crash":  func(w *World) bool { w.Crash(); return true },
	"reboot": func(w *World) bool { w.Reboot(); return true },
	"death": func(w *World) bool {
		if len(w.machine.processes) == 0 {
			return false
		}
		w.machine.processes[0].kill("SIGKILL")
		return true
	},
	"panic before": func(w *World) bool {
		w.orderedPanics = append(w.orderedPanics, &orderedPanic{nth: 1, when: panicBefore})
		return true
	},
	"panic after": func(w *World) bool {
		w.orderedPanics = append(w.orderedPanics, &orderedPanic{nth: 1, when: panicAfter})
		return true
	},
	"disk": func(w *World) bool {
		w.disk.Fail(simdisk.Fault{Nth: 1, Times: 2, Err: diskErrors[0]})
		return true
	},
	"disk, after": func(w *World) bool {
		w.disk.Fail(simdisk.Fault{Nth: 1, Times: 1, Err: diskErrors[1], When: simdisk.AfterEffect})
		return true
	},
}

// A fault at every step between the addition and the deletion of a rule also hits every job
// that waits for the rule.
func TestEveryStepOfARule(t *testing.T) {
	for _, before := range []bool{true, false} {
		for name, fault := range stepFaults {
			t.Run(fmt.Sprintf("%s, before the jobs: %v", name, before), func(t *testing.T) {
				everyStepOf(t, 6, 7, ruledJobs(before), fault)
			})
		}
	}
}
