package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
	"lockstep/sim/simdisk"
)

// everyStep runs two jobs of two opcodes once for each step that the run takes, and calls
// fault before that step.
func everyStep(t *testing.T, seed uint64, fault func(w *World) bool) {
	everyStepOf(t, seed, 1, twoJobs, fault)
}

// twoJobs submits two jobs with names as soon as the daemon takes connections.
func twoJobs(w *World) (done func() bool) {
	c := w.newClient()
	c.namesJobs = true
	var sent *submission
	c.whenReady(func() {
		sent = c.submit([][]OpSpec{{"run run_for=0.01", "delay 0.5"}, {"run run_for=1", "run run_for=0"}}, nil)
	})
	return func() bool { return sent != nil && sent.answered }
}

// everyStepOf runs the work once for each step that the work takes, or for each stride-th
// step, and calls fault before that step. All checkers watch, and all jobs must end. fault
// returns false when it finds nothing to hit.
func everyStepOf(t *testing.T, seed, stride uint64, work func(*World) func() bool, fault func(w *World) bool) {
	t.Parallel()
	injected := 0
	for at := uint64(0); ; at += longtest.Stride(stride) {
		w := New(Options{Seed: seed})
		w.restartAfter = restartDelay
		w.startAgain()
		done := work(w)
		over := func() bool { return done() && w.kernel.Idle() && w.unfinished() == nil }
		for w.stepCount < at && !over() && w.Step() {
		}
		if w.stepCount < at {
			require.Greater(t, injected, 0)
			return // there is no such step
		}
		if fault(w) {
			injected++
		}
		w.RunFor(30 * time.Minute)
		if w.Err() == nil {
			w.finish()
		}
		require.NoError(t, w.Err(), "seed %d, struck at step %d:\n%s", seed, at, shownLines(w.Last(40)))
		require.True(t, done())
	}
}

func shownLines(lines []Line) (text string) {
	for _, l := range lines {
		text += l.String() + "\n"
	}
	return text
}

func TestTheDaemonCrashesAtEveryStep(t *testing.T) {
	everyStep(t, 1, func(w *World) bool { w.Crash(); return true })
}

func TestTheMachineRebootsAtEveryStep(t *testing.T) {
	everyStep(t, 2, func(w *World) bool { w.Reboot(); return true })
}

func TestAJobProcessDiesAtEveryStep(t *testing.T) {
	everyStep(t, 3, func(w *World) bool {
		if len(w.machine.processes) == 0 {
			return false
		}
		w.machine.processes[0].kill("SIGKILL")
		return true
	})
}

// At each step the actor that handles the next message panics, before or after it handles the
// message.
func TestAnActorPanicsOverEveryMessage(t *testing.T) {
	for _, when := range []panicWhen{panicBefore, panicAfter} {
		t.Run(fmt.Sprint(when), func(t *testing.T) {
			everyStep(t, 4, func(w *World) bool {
				w.orderedPanics = append(w.orderedPanics, &orderedPanic{nth: 1, when: when})
				return true
			})
		})
	}
}

// At each step the next calls to the disk fail.
func TestTheDiskFailsAtEveryStep(t *testing.T) {
	for _, times := range []int{1, 3} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			everyStep(t, 5, func(w *World) bool {
				w.disk.Fail(simdisk.Fault{Nth: 1, Times: times, Err: diskErrors[0]})
				return true
			})
		})
	}
}

// whenReady calls f when a daemon takes connections.
func (c *client) whenReady(f func()) {
	if d := c.world.daemon; d != nil && d.ready {
		f()
		return
	}
	c.later(10*time.Millisecond, func() { c.whenReady(f) })
}
