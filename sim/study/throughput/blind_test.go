package throughput

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config"
	"lockstep/core/job"
	"lockstep/sim/study"
)

// longer is work of which some opcodes take longer.
type longer struct {
	*study.Plan
	unfinished map[job.ID]int // by job: the first opcode that takes longer
}

func (l longer) Job(i int) []study.Opcode {
	ops := l.Plan.Job(i)
	first, is := l.unfinished[job.ID(i+1)]
	for k := first; is && k < len(ops); k++ {
		ops[k].Duration = 3*ops[k].Duration + time.Duration(i%7)*time.Hour
	}
	return ops
}

// No decision depends on how long an opcode will take that has not ended: if only such durations are changed, the same
// opcodes begin and end in the same order up to that moment.
func TestTheOrderIsBlindToTheFuture(t *testing.T) {
	found := 0 // orders that know the future
	for _, mix := range []string{"operator", "maintenance", "long-tail"} {
		m, err := study.FindMix(mix)
		require.NoError(t, err)
		o := study.MixOptions{Seed: 6, Jobs: 300, Slots: 8, Nodes: 12, Load: 0.3}
		plan := study.NewPlan(m, o)
		s := settings(t, true)
		s.Order = config.OrderExpected
		type seen struct {
			id   job.ID
			ends bool
		}
		run := func(work Work, clairvoyant bool) (events []seen) {
			done(t, work, Options{Slots: o.Slots, Settings: s, Clairvoyant: clairvoyant, onEvent: func(e event) { events = append(events, seen{e.id, e.ends}) }})
			return events
		}
		events, informed := run(plan, false), run(plan, true)
		for _, part := range []int{3, 2} {
			until := len(events) / part
			unfinished := map[job.ID]int{}
			for id := range job.ID(plan.Len()) {
				unfinished[id+1] = 0
			}
			for _, e := range events[:until] {
				if e.ends {
					unfinished[e.id]++
				}
			}
			changed := run(longer{plan, unfinished}, false)
			require.Equal(t, events[:until], changed[:until], mix)
			require.NotEqual(t, events, changed, mix)
			if !slices.Equal(informed[:until], run(longer{plan, unfinished}, true)[:until]) {
				found++
			}
		}
	}
	require.Greater(t, found, 2, "the test does not find an order that knows the future")
}
