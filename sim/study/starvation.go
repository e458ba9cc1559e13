package study

import (
	"fmt"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/sim"
)

// checkStarving: nobody starves. When a job is chosen, no earlier one of its
// priority that has waited for K ticks may be left behind.
//
// It looks only at jobs that nothing holds back but slots and locks: without
// dependencies and limits, and of whom nobody wants anything. Filter rules must
// not concern them.
type checkStarving struct {
	after   time.Duration
	waiting map[int][]*queued // by priority, by id; those that were chosen in between
	jobs    map[int64]*queued
	seen    Starvation
}

// Starvation is what was looked at.
type Starvation struct {
	// Picks is how many jobs were chosen; Aged, how many of these after K ticks;
	// Overtook, how many before an earlier one, which was not that old.
	Picks    int `json:"picks"`
	Aged     int `json:"aged"`
	Overtook int `json:"overtook"`
}

type queued struct {
	id       int64
	received time.Time
	priority int
	gone     bool
}

// Name names the checker.
func (*checkStarving) Name() string { return "no starvation" }

// See takes what the scheduler may know of each job, and judges each choice.
func (c *checkStarving) See(w *sim.World, event any) error {
	e, is := sim.JobEventOf(event)
	if !is {
		return nil
	}
	switch e.Kind {
	case sim.JobWritten:
		c.written(e.ID, e.Job)
	case sim.OrderSent:
		c.forget(e.ID)
	case sim.JobPicked:
		return c.picked(w, e.ID)
	}
	return nil
}

func (c *checkStarving) written(id int64, j *job.Job) {
	if j.Status() != job.Queued || c.jobs[id] != nil || !sim.Unconstrained(j) {
		return
	}
	if c.jobs == nil {
		c.jobs, c.waiting = map[int64]*queued{}, map[int][]*queued{}
	}
	q := &queued{id: id, received: time.Unix(j.Received.Sec, j.Received.Usec*1000), priority: j.Priority()}
	c.jobs[id] = q
	line := c.waiting[q.priority]
	at, _ := slices.BinarySearchFunc(line, q.id, func(other *queued, id int64) int { return int(other.id - id) })
	c.waiting[q.priority] = slices.Insert(line, at, q)
}

// forget leaves an entry, so that the job is not taken for another one.
func (c *checkStarving) forget(id int64) {
	if q := c.jobs[id]; q != nil {
		q.gone = true
	}
}

func (c *checkStarving) picked(w *sim.World, id int64) error {
	q := c.jobs[id]
	if q == nil || q.gone {
		return nil
	}
	q.gone = true
	line := c.waiting[q.priority]
	for len(line) > 0 && line[0].gone {
		line = line[1:]
	}
	c.waiting[q.priority] = line
	c.seen.Picks++
	if w.Now().Sub(q.received) >= c.after {
		c.seen.Aged++
	}
	if len(line) == 0 || line[0].id > id {
		return nil
	}
	c.seen.Overtook++
	if age := w.Now().Sub(line[0].received); age >= c.after {
		return fmt.Errorf("job %d was chosen before job %d, which came first and has waited for %v", id, line[0].id, age)
	}
	return nil
}
