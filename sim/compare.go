package sim

import (
	"encoding/json"
	"errors"
	"maps"
	"strconv"
	"sync"
	"time"

	"lockstep/core/config"
)

// CompareOptions say what is compared, and under which conditions.
type CompareOptions struct {
	MixOptions
	// Settings are lockstep's own, by their names, as JSON; predictive is set by
	// Compare.
	Settings map[string][]byte
	// Timings: the outcomes have those of each job, with its locks.
	Timings bool
	// Ended is told of the end of each job, of both runs, one at a time.
	Ended func()
}

// Validate names what is out of range.
func (o CompareOptions) Validate() error {
	_, err := SettingsWith(o.Settings)
	return errors.Join(o.MixOptions.Validate(), err)
}

// Comparison is the same work done in both orders.
type Comparison struct {
	Seed       uint64  `json:"seed"`
	Predictive Outcome `json:"predictive"`
	Plain      Outcome `json:"plain"`
}

// Compare has a mix done in the predictive order and in the plain one, in two
// worlds that are alike, without faults.
func Compare(m Mix, o CompareOptions) (Comparison, error) {
	c := Comparison{Seed: o.Seed}
	batches := plan(m, o.MixOptions)
	var errs [2]error
	var both sync.WaitGroup
	var one sync.Mutex
	ended := func() {
		if o.Ended != nil {
			one.Lock()
			o.Ended()
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

// measure does the work in one order.
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
	m := newMeter(ended)
	starving := &checkStarving{after: time.Duration(settings.PredictiveTicks) * settings.PredictiveTick()}
	w := New(Options{Seed: o.Seed, Slots: o.Slots, Starts: startsInFlight, Checkers: []Checker{
		m, starving, &checkOnce{}, &checkEnds{}, &checkForward{}, &checkSlots{}, &checkLocks{}, &checkTable{}, &checkLive{}}})
	if err := w.doPlan(batches, values, m); err != nil {
		return Outcome{}, err
	}
	outcome, err := m.outcome(w, batches, o.Timings)
	outcome.Starvation = starving.seen
	return outcome, err
}

// SettingsWith is the default settings but for some, by name, as JSON. The error
// names the setting.
func SettingsWith(values map[string][]byte) (config.Settings, error) {
	file, err := config.EditSettings([]byte("{}"), values)
	if err != nil {
		return config.Settings{}, err
	}
	return config.DecodeSettings(file)
}

// doPlan submits all batches in their time, and steps until every job has ended.
func (w *World) doPlan(batches []batch, settings map[string][]byte, m *meter) error {
	if err := w.Start(); err != nil {
		return err
	}
	for !w.daemon.ready && w.Step() {
	}
	client, jobs := w.newClient(), 0
	for _, b := range batches {
		jobs += len(b.jobs)
	}
	var failed error
	values := map[string]any{}
	for name, text := range settings {
		values[name] = json.RawMessage(text)
	}
	client.set(values, func(err error) {
		if failed = err; err == nil {
			client.submitAll(batches, &failed)
		}
	})
	for m.ended < jobs && failed == nil && w.Step() {
	}
	if failed == nil && w.violation == nil {
		w.RunFor(settleMax)
	}
	if failed == nil && w.violation == nil {
		w.finish()
	}
	return errors.Join(failed, w.Err())
}

// submitAll submits one batch after the other. Time does not move while the
// daemon answers, so that each comes when it was planned.
func (c *client) submitAll(batches []batch, failed *error) {
	began := c.world.clock.now
	var next func(int)
	next = func(i int) {
		if i == len(batches) {
			return
		}
		jobs := make([][]opSpec, len(batches[i].jobs))
		for k, j := range batches[i].jobs {
			jobs[k] = j.ops
		}
		c.later(began.Add(batches[i].at).Sub(c.world.clock.now), func() {
			c.submit(jobs, func(s *submission) {
				if *failed = s.err; s.err == nil {
					next(i + 1)
				}
			})
		})
	}
	next(0)
}
