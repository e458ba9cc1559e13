package sim

import (
	"testing"

	"lockstep/sim/simdisk"
)

// twoTries submits a job whose second command is tried twice and then succeeds, and which is tried again when its process dies, one that is
// not, and one that waits for the first.
func twoTries(w *World) (done func() bool) {
	c := w.newClient()
	var sent *submission
	c.whenReady(func() {
		sent = c.submit([][]OpSpec{
			{"run run_for=0.01", "run run_for=0.1 exit=75 fails=1 locks=node/a retry=3:0.2::failure/lost", "run run_for=0.01"},
			{"run run_for=0.1 exit=75 fails=2 locks=node/a:shared retry=2:0.2::75"},
			{"run run_for=0 after=-2:success,error"},
		}, nil)
	})
	return func() bool { return sent != nil && sent.answered }
}

// Tries go on after a fault at every step: a crash of the daemon, a power loss, the death of a process, a panic, an error of the disk.
func TestFaultsAtEveryStepOfTries(t *testing.T) {
	panics := func(when panicWhen) func(*World) bool {
		return func(w *World) bool {
			w.orderedPanics = append(w.orderedPanics, &orderedPanic{nth: 1, when: when})
			return true
		}
	}
	diskFails := func(times int) func(*World) bool {
		return func(w *World) bool {
			w.disk.Fail(simdisk.Fault{Nth: 1, Times: times, Err: diskErrors[0]})
			return true
		}
	}
	for name, fault := range map[string]func(*World) bool{
		"crash":        func(w *World) bool { w.Crash(); return true },
		"reboot":       func(w *World) bool { w.Reboot(); return true },
		"process":      killsFirstProcess,
		"panic before": panics(panicBefore),
		"panic after":  panics(panicAfter),
		"disk":         diskFails(1),
		"disk, thrice": diskFails(3),
	} {
		t.Run(name, func(t *testing.T) { everyStepOf(t, 11, 1, twoTries, fault) })
	}
}

func killsFirstProcess(w *World) bool {
	if len(w.machine.processes) == 0 {
		return false
	}
	w.machine.processes[0].kill("SIGKILL")
	return true
}
