package sim

import (
	"encoding/json"
	"errors"
	"time"

	"lockstep/core/answer"
	"lockstep/core/job"
)

// Batch is a list of jobs that one client submits together.
type Batch struct {
	At   time.Duration // after the settings are made
	Jobs [][]OpSpec
	// Names are the names of the jobs, "" for none; nil: none has a name.
	Names []string
}

// BatchCheckers makes the checkers for RunBatches: all that can find a violation without faults,
// rules or client orders.
func BatchCheckers() []Checker {
	return []Checker{&checkOnce{}, &checkEnds{}, &checkForward{}, &checkSlots{}, &checkLocks{}, &checkTable{}, &checkLive{}, &checkExpected{}}
}

// RunBatches starts the daemon of a world with one node, makes the settings (JSON by
// name), and submits each batch at its time. It steps until done reports true, and then
// until the daemon has recorded all ends. It returns the ids of the jobs of each batch.
func (w *World) RunBatches(batches []Batch, settings map[string][]byte, done func() bool) ([][]int64, error) {
	if err := w.Start(); err != nil {
		return nil, err
	}
	for !w.daemon.ready && w.Step() {
	}
	client := w.newClient()
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
	if w.orderSeen != nil {
		w.newClient().watchOrder()
	}
	for !done() && failed == nil && w.Step() {
	}
	w.orderSeen = nil
	if failed == nil && w.violation == nil {
		w.RunFor(finalRetryMax)
	}
	if failed == nil && w.violation == nil {
		w.finish()
	}
	ids := make([][]int64, len(w.submissions))
	for i, s := range w.submissions {
		ids[i] = s.ids
	}
	return ids, errors.Join(failed, w.Err())
}

// WatchOrder makes RunBatches ask for the estimates of all jobs every so often, and calls seen with each answer.
func (w *World) WatchOrder(every time.Duration, seen func(answer.Order)) {
	w.orderEvery, w.orderSeen = every, seen
}

func (c *client) watchOrder() {
	c.later(c.world.orderEvery, func() {
		c.rpc.call("LockstepOrder", []any{nil, nil}, answerMax, func(result json.RawMessage, err error) {
			if c.world.orderSeen == nil {
				return // the work is done
			}
			if err == nil {
				var order answer.Order
				mustDecode(result, &order)
				c.world.orderSeen(order)
			}
			c.watchOrder()
		})
	})
}

// Put makes a file of the data directory, before the daemon starts.
func (w *World) Put(path string, content []byte) { w.disk.Overwrite(path, content) }

// submitAll submits one batch after the other. Time does not move while the daemon answers, so
// that each batch is submitted at its planned time.
func (c *client) submitAll(batches []Batch, failed *error) {
	began := c.world.clock.Now()
	var next func(int)
	next = func(i int) {
		if i == len(batches) {
			return
		}
		c.later(began.Add(batches[i].At).Sub(c.world.clock.Now()), func() {
			c.submitAs(&submission{jobs: batches[i].Jobs, names: batches[i].Names}, func(s *submission) {
				if *failed = s.err; s.err == nil {
					next(i + 1)
				}
			})
		})
	}
	next(0)
}

// Now is the virtual time.
func (w *World) Now() time.Time { return w.clock.Now() }

// Elapsed is the virtual time since the world began.
func (w *World) Elapsed() time.Duration { return w.clock.Elapsed() }

// Unconstrained reports that nothing in the job itself delays its start: it has no
// dependency and no rate limit.
func Unconstrained(j *job.Job) bool {
	for i := range j.Ops {
		if len(dependenciesOf(j.Ops[i].Input)) > 0 {
			return false
		}
	}
	return len(bucketsOf(j)) == 0
}
