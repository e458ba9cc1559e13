package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// editedSettings archives jobs one second after their end, stops the daemon, damages settings.json, which kept jobs, and starts the
// daemon. After that number of steps a fault hits, and then a client changes a setting.
func editedSettings(t *testing.T, steps int, fault func(*World) bool, mutations Mutations) error {
	w := New(Options{Seed: 3, Mutations: mutations})
	w.restartAfter = restartDelay
	w.startAgain()
	done := retainedJobs(w)
	w.until(t, "the first jobs are archived", done)
	w.RunFor(time.Second) // until that is durable
	w.Crash()
	w.editSettings(`{"archive_after": 1, "keep_last": 5,`)
	c := w.newClient()
	w.startAgain()
	for range steps {
		w.Step()
	}
	fault(w)
	c.whenReady(func() {
		c.submit([][]OpSpec{{"run run_for=0.01"}, {"run run_for=0.01"}}, func(*submission) {
			c.set(map[string]any{"predictive_ticks": 7}, nil)
		})
	})
	w.RunFor(10 * time.Minute)
	if w.Err() == nil {
		w.finish()
	}
	return w.Err()
}

// A damaged settings.json is never replaced, and no job is archived by a default meanwhile, whatever happens while the daemon sets
// it aside.
func TestEveryStepOfDamagedSettings(t *testing.T) {
	unset, err := findMutation("unset-aside")
	require.NoError(t, err)
	require.ErrorContains(t, editedSettings(t, 0, func(*World) bool { return true }, unset), "edited files")
	for name, fault := range stepFaults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for steps := range longtest.Times(100) {
				require.NoError(t, editedSettings(t, steps*10/longtest.Times(10), fault, Mutations{}), fmt.Sprint(steps))
			}
		})
	}
}
