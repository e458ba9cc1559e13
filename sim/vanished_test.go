package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// vanishedQueue runs jobs of several opcodes, two of which want the same lock, for a number of steps. Then the daemon and the directory of
// the queue are gone for good. It reports whether a job process lived at that time.
func vanishedQueue(t *testing.T, steps int, mutations Mutations) (lived bool, err error) {
	w := New(Options{Seed: 4, Mutations: mutations})
	w.startAgain()
	c := w.newClient()
	c.whenReady(func() {
		c.submit([][]OpSpec{{"run run_for=0.2", "run run_for=1 locks=node/a", "run run_for=0.2"}, {"run run_for=0.1 locks=node/a", "run run_for=3", "delay 0.1"}}, nil)
	})
	for range steps {
		w.Step()
	}
	w.diskFull = diskFull{op: queueMissing, until: w.clock.Now().Add(24 * time.Hour)}
	lived = len(w.machine.processes) > 0
	if w.daemon != nil {
		w.Crash()
	}
	w.RunFor(10 * time.Minute)
	if w.Err() == nil {
		require.Empty(t, w.machine.processes, "%d steps", steps)
	}
	return lived, w.Err()
}

// Wherever a job process is when the daemon and the queue vanish, it ends.
func TestProcessesEndWithoutAQueueAtEveryStep(t *testing.T) {
	patient, err := findMutation("patient-processes")
	require.NoError(t, err)
	living, bites := 0, 0
	stride := 600 / longtest.Times(200)
	for steps := 0; steps < 600; steps += stride {
		lived, err := vanishedQueue(t, steps, Mutations{})
		require.NoError(t, err, "%d steps", steps)
		if !lived {
			continue
		}
		living++
		if bites > 0 {
			continue
		}
		if _, err := vanishedQueue(t, steps, patient); err != nil {
			require.ErrorContains(t, err, "processes without a queue")
			bites++
		}
	}
	require.Positive(t, living)
	require.Positive(t, bites)
}
