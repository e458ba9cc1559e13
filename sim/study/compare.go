package study

import (
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"lockstep/core/config"
	"lockstep/sim"
)

// CompareOptions are the conditions of a comparison.
type CompareOptions struct {
	MixOptions
	// Settings are settings of lockstep by name, as JSON. Compare sets predictive.
	Settings map[string][]byte
	// Timings adds the timing of each job, with its locks, to the outcomes.
	Timings bool
	// OnJobEnd is called at the end of each job of both runs, one call at a time.
	OnJobEnd func()
}

// Validate returns an error that names a value out of range.
func (o CompareOptions) Validate() error {
	_, err := SettingsWith(o.Settings)
	return errors.Join(o.MixOptions.Validate(), err)
}

// Comparison has the outcomes of the same work in both orders.
type Comparison struct {
	Seed       uint64  `json:"seed"`
	Predictive Outcome `json:"predictive"`
	Plain      Outcome `json:"plain"`
}

// Compare runs the work of a mix in the predictive order and in the plain one, in two equal
// worlds, without faults.
func Compare(m Mix, o CompareOptions) (Comparison, error) {
	c := Comparison{Seed: o.Seed}
	batches := plan(m, o.MixOptions)
	var errs [2]error
	var both sync.WaitGroup
	var one sync.Mutex
	ended := func() {
		if o.OnJobEnd != nil {
			one.Lock()
			o.OnJobEnd()
			one.Unlock()
		}
	}
	both.Go(func() { c.Predictive, errs[0] = measure(batches, o, true, ended) })
	both.Go(func() { c.Plain, errs[1] = measure(batches, o, false, ended) })
	both.Wait()
	return c, errors.Join(errs[:]...)
}

// startsInFlight is lockstepd's default.
const startsInFlight = 8

// measure runs the work in one order.
func measure(batches []batch, o CompareOptions, predictive bool, ended func()) (Outcome, error) {
	values := maps.Clone(o.Settings)
	if values == nil {
		values = map[string][]byte{}
	}
	values["predictive"] = strconv.AppendBool(nil, predictive)
	settings, err := SettingsWith(values)
	if err != nil {
		return Outcome{}, err
	}
	m := newMetrics(ended)
	starving := &checkStarving{after: time.Duration(settings.PredictiveTicks) * settings.PredictiveTick()}
	w := sim.New(sim.Options{Seed: o.Seed, Slots: o.Slots, Starts: startsInFlight, Checkers: append([]sim.Checker{m, starving}, sim.BatchCheckers()...)})
	ids, err := runBatches(w, batches, values, m)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := m.outcome(w, batches, ids, o.Timings)
	outcome.Starvation = starving.counts
	return outcome, err
}

// runBatches runs the work in a world until all of its jobs have ended.
func runBatches(w *sim.World, batches []batch, settings map[string][]byte, m *metrics) ([][]int64, error) {
	work, jobs := make([]sim.Batch, len(batches)), 0
	for i, b := range batches {
		work[i] = sim.Batch{At: b.at, Jobs: make([][]sim.OpSpec, len(b.jobs))}
		for k, j := range b.jobs {
			work[i].Jobs[k] = j.ops
		}
		jobs += len(b.jobs)
	}
	return w.RunBatches(work, settings, func() bool { return m.ended >= jobs })
}

// SettingsWith returns the default settings with some replaced, by name, as JSON. The error names
// the setting.
func SettingsWith(values map[string][]byte) (config.Settings, error) {
	file, err := config.EditSettings([]byte("{}"), values)
	if err != nil {
		return config.Settings{}, err
	}
	return config.DecodeSettings(file)
}
