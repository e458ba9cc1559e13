package study

import (
	"fmt"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/sim"
)

// checkStarving: no job starves. When a job is chosen, no earlier job of its priority has waited
// for K ticks and is still pending.
//
// It judges only jobs that nothing but slots and locks can block: without dependencies, limits
// and client orders. Filter rules must not concern them.
type checkStarving struct {
	after   time.Duration
	waiting map[int][]*queuedJob // by priority, in the order of ids; with jobs chosen meanwhile
	jobs    map[int64]*queuedJob
	counts  Starvation
}

// Starvation counts the judged jobs.
type Starvation struct {
	// Picks is the number of chosen jobs; Aged, of these after K ticks; Overtook, of these before
	// an earlier job, which had not waited so long.
	Picks    int `json:"picks"`
	Aged     int `json:"aged"`
	Overtook int `json:"overtook"`
}

type queuedJob struct {
	id       int64
	received time.Time
	priority int
	ignored  bool
}

// Name names the checker.
func (*checkStarving) Name() string { return "no starvation" }

// See records what the scheduler may know of each job, and judges each choice.
func (c *checkStarving) See(w *sim.World, event any) error {
	e, is := sim.JobEventOf(event)
	if !is {
		return nil
	}
	switch e.Kind {
	case sim.JobWritten:
		c.written(e.ID, e.Job)
	case sim.OrderSent:
		c.ignore(e.ID)
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
		c.jobs, c.waiting = map[int64]*queuedJob{}, map[int][]*queuedJob{}
	}
	q := &queuedJob{id: id, received: time.Unix(j.Received.Sec, j.Received.Usec*1000), priority: j.Priority()}
	c.jobs[id] = q
	line := c.waiting[q.priority]
	at, _ := slices.BinarySearchFunc(line, q.id, func(other *queuedJob, id int64) int { return int(other.id - id) })
	c.waiting[q.priority] = slices.Insert(line, at, q)
}

// ignore keeps an entry, so that the job is not judged.
func (c *checkStarving) ignore(id int64) {
	if q := c.jobs[id]; q != nil {
		q.ignored = true
	}
}

func (c *checkStarving) picked(w *sim.World, id int64) error {
	q := c.jobs[id]
	if q == nil || q.ignored {
		return nil
	}
	q.ignored = true
	line := c.waiting[q.priority]
	for len(line) > 0 && line[0].ignored {
		line = line[1:]
	}
	c.waiting[q.priority] = line
	c.counts.Picks++
	if w.Now().Sub(q.received) >= c.after {
		c.counts.Aged++
	}
	if len(line) == 0 || line[0].id > id {
		return nil
	}
	c.counts.Overtook++
	if age := w.Now().Sub(line[0].received); age >= c.after {
		return fmt.Errorf("job %d was chosen before job %d, which came first and has waited for %v", id, line[0].id, age)
	}
	return nil
}
