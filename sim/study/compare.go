package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/core/config"
	"lockstep/core/paths"
	"lockstep/sim"
)

// CompareOptions are the conditions of a comparison.
type CompareOptions struct {
	MixOptions
	// Settings are settings of lockstep by name, as JSON. Compare sets order.
	Settings map[string][]byte
	// Without are runs that Compare omits.
	Without []string
	// Estimates adds how wrong estimates were, in the order expected. The daemon is asked for them during the runs.
	Estimates bool
	// KindsBy is one of the ways of KindsBy in which the runs other than Informed tell the kinds of jobs; "" is ByLabel.
	KindsBy string
	// OnJobEnd is called at the end of each job of all runs, one call at a time.
	OnJobEnd func()
}

// Validate returns an error that names a value out of range.
func (o CompareOptions) Validate() error {
	_, err := SettingsWith(o.Settings)
	if o.KindsBy != "" && !slices.Contains(KindsBy, o.KindsBy) {
		err = errors.Join(err, fmt.Errorf("kinds by %q: there are %s", o.KindsBy, strings.Join(KindsBy, ", ")))
	}
	return errors.Join(o.MixOptions.Validate(), err)
}

// Informed is the run in the order expected in which the daemon knows the duration of each opcode, to within a tenth,
// from a table of durations that the simulation has made. The other runs begin without such a table.
const Informed = "informed"

// Runs are the names of all runs: the orders, and the reference.
var Runs = []string{config.OrderExpected, config.OrderWeights, config.OrderPlain, Informed}

// Comparison has the outcomes of the same work in all orders. An omitted run is nil.
type Comparison struct {
	Seed     uint64   `json:"seed"`
	Expected *Outcome `json:"expected,omitempty"`
	Weights  *Outcome `json:"weights,omitempty"`
	Plain    *Outcome `json:"plain,omitempty"`
	Informed *Outcome `json:"informed,omitempty"`
	// Bound is a mean wait, in seconds, below which no order can be (LowerBound).
	Bound float64 `json:"lower_bound_of_mean_wait"`
}

// Run is the outcome of a run by its name; nil if it was omitted.
func (c *Comparison) Run(name string) *Outcome { return *c.run(name) }

func (c *Comparison) run(name string) **Outcome {
	switch name {
	case config.OrderExpected:
		return &c.Expected
	case config.OrderWeights:
		return &c.Weights
	case config.OrderPlain:
		return &c.Plain
	case Informed:
		return &c.Informed
	}
	panic("no run is called " + name)
}

// Compare runs the work of a mix in each order, at the same time and in equal worlds, without faults. The errors are those of single
// runs.
func Compare(m Mix, o CompareOptions) (Comparison, error) {
	c := Comparison{Seed: o.Seed}
	batches := plan(m, o.MixOptions)
	c.Bound = lowerBound(batches, o.Slots)
	var errs []error
	var all sync.WaitGroup
	var one sync.Mutex
	ended := func() {
		if o.OnJobEnd != nil {
			one.Lock()
			o.OnJobEnd()
			one.Unlock()
		}
	}
	for _, name := range Runs {
		if slices.Contains(o.Without, name) {
			continue
		}
		all.Go(func() {
			outcome, err := measure(batches, o, name, ended)
			one.Lock()
			defer one.Unlock()
			*c.run(name), errs = &outcome, append(errs, err)
		})
	}
	all.Wait()
	return c, errors.Join(errs...)
}

// startsInFlight is lockstepd's default.
const startsInFlight = 8

// measure runs the work once, in the order with a name, and returns what was measured.
func measure(batches []batch, o CompareOptions, name string, ended func()) (Outcome, error) {
	values := maps.Clone(o.Settings)
	if values == nil {
		values = map[string][]byte{}
	}
	order := name
	if name == Informed {
		order = config.OrderExpected
		batches = withKnownDurations(batches)
	} else {
		batches = withKindsBy(cmp.Or(o.KindsBy, ByLabel), batches)
	}
	values["order"] = strconv.AppendQuote(nil, order)
	settings, err := SettingsWith(values)
	if err != nil {
		return Outcome{}, err
	}
	m := newMetrics(ended)
	checkers := append([]sim.Checker{m}, sim.BatchCheckers()...)
	starving := &checkStarving{after: time.Duration(settings.PredictiveTicks) * settings.PredictiveTick()}
	if order != config.OrderExpected {
		checkers = append(checkers, starving)
	}
	w := sim.New(sim.Options{Seed: o.Seed, Slots: o.Slots, Starts: startsInFlight, Checkers: checkers})
	if name == Informed {
		w.Put(paths.DurationsPath, knownDurations().Encode())
	}
	var estimates map[int64]estimated
	if o.Estimates && order == config.OrderExpected {
		estimates = watchEstimates(w)
	}
	ids, err := runBatches(w, batches, values, m)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := m.outcome(w, batches, ids)
	outcome.Drains = drains(m.jobs, o.Slots)
	outcome.Starvation, outcome.Estimates = starving.counts, m.compareEstimates(w, estimates)
	return outcome, err
}

// runBatches runs the work in a world until all of its jobs have ended.
func runBatches(w *sim.World, batches []batch, settings map[string][]byte, m *metrics) ([][]int64, error) {
	work, jobs := make([]sim.Batch, len(batches)), 0
	for i, b := range batches {
		work[i] = sim.Batch{At: b.at, Jobs: make([][]sim.OpSpec, len(b.jobs)), Names: make([]string, len(b.jobs))}
		for k, j := range b.jobs {
			work[i].Jobs[k], work[i].Names[k] = j.ops, j.name
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
