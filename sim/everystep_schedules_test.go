package sim

import (
	"encoding/json"
	"testing"
	"time"

	"lockstep/sim/simdisk"
)

// twoSchedules defines a schedule whose jobs wait for each other and one whose jobs replace each other, and removes them later.
func twoSchedules(w *World) (done func() bool) {
	k := &scheduleWork{world: w, busy: 2}
	schedule := func(definition map[string]any, lives time.Duration) {
		c := w.newClient()
		c.whenReady(func() {
			k.untilDone(c, "LockstepPutSchedule", []any{definition, map[string]any{"replace": true}}, func() {
				c.later(lives, func() {
					k.untilDone(c, "LockstepOrderSchedule", []any{definition["name"], "remove", nil}, func() { k.busy-- })
				})
			})
		})
	}
	schedule(scheduleOf("waits", "run run_for=1.2", "queue", time.Second), 2500*time.Millisecond)
	schedule(scheduleOf("replaces", "run run_for=3 locks=node/a", "replace", 2*time.Second), 5*time.Second)
	return k.done
}

func scheduleOf(name, op, overlap string, period time.Duration) map[string]any {
	return map[string]any{
		"name": name, "every_us": period.Microseconds(), "overlap": overlap, "catch_up": "all",
		"jobs": []any{map[string]any{"ops": []json.RawMessage{OpSpec(op).Encode(scheduleTag + name)}}},
	}
}

// Schedules go on after a fault at every step: a crash of the daemon, a power loss, the death of a process, a panic, an error of the disk.
func TestFaultsAtEveryStepOfSchedules(t *testing.T) {
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
		t.Run(name, func(t *testing.T) { everyStepOf(t, 12, 1, twoSchedules, fault) })
	}
}
