package sim

import (
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/paths"
)

// eligibility is what an observer knows of the jobs that wait for their choice. A job counts as eligible only if that is
// certain: it is queued and not between tries, starts at no time, has no dependency, no rule, limit or client order concerns it, the disk
// has never failed it, and all this held when the world was last quiescent.
type eligibility struct {
	waiting map[int64]*waitingJob
	orders  map[int64]int  // client orders without an answer, by job
	held    map[int64]bool // jobs that a client has held at some time
	timed   map[int64]bool // jobs whose time a client has changed
	// chosen are the jobs that were chosen and have not come back. The value is true if an actor has failed since: if it was the
	// job's, what it wrote last may say that the job waits, though the job stays with the jobs actor until it is adopted.
	chosen map[int64]bool
}

// waitingJob is a job that has not been chosen, as far as an observer can tell.
type waitingJob struct {
	job     *job.Job
	changed uint64 // the step of the latest event about the job
	odd     bool   // it may be ineligible for reasons that are not visible here
}

// eligible reports whether a waiting job is certain to be eligible.
func (c *eligibility) eligible(w *World, id int64) bool {
	known := c.waiting[id]
	if known == nil || known.odd || c.orders[id] > 0 || known.changed >= w.effective.quiescentAt || id > w.serial() {
		return false
	}
	v, judged := w.effective.verdict(known.job)
	return judged && v.action.Verb == filter.Accept
}

func (c *eligibility) observe(w *World, event any) {
	if c.waiting == nil {
		c.waiting, c.orders, c.held, c.chosen = map[int64]*waitingJob{}, map[int64]int{}, map[int64]bool{}, map[int64]bool{}
		c.timed = map[int64]bool{}
	}
	switch e := event.(type) {
	case fileChanged:
		c.fileChanged(w, e)
	case jobPicked:
		delete(c.waiting, e.id)
		c.chosen[e.id] = false
	case panicked:
		for id := range c.chosen { // the order does not matter
			c.chosen[id] = true
		}
	case jobReturned:
		delete(c.chosen, e.id)
		c.see(w, e.id, w.Job(e.id))
	case holdSent:
		c.held[e.id] = true
		if known := c.waiting[e.id]; known != nil {
			known.odd = true
		}
	case timeSent:
		c.timed[e.id] = true
		if known := c.waiting[e.id]; known != nil {
			known.odd = true
		}
	case orderSent:
		c.orders[e.id]++
	case orderAnswered:
		c.answered(w, e)
	case diskFailed:
		c.failed(w, e.path)
	case garbled:
		delete(c.waiting, e.id)
	case deciderStarted:
		clear(c.chosen)
		c.touchAll(w)
	case stalled:
		c.touchAll(w)
	case powerLost:
		clear(c.waiting)
		clear(c.chosen)
	}
}

func (c *eligibility) touch(w *World, id int64) {
	if known := c.waiting[id]; known != nil {
		known.changed = w.stepCount
	}
}

func (c *eligibility) touchAll(w *World) {
	for id := range c.waiting { // the order does not matter
		c.touch(w, id)
	}
}

// answered records that an order has ended. An order whose answer was lost may be carried out
// later.
func (c *eligibility) answered(w *World, e orderAnswered) {
	c.touch(w, e.id)
	if c.orders[e.id]--; c.orders[e.id] == 0 {
		delete(c.orders, e.id)
	}
	if known := c.waiting[e.id]; known != nil && e.err != nil {
		known.odd = true
	}
}

// failed records a job whose file could not be written or synced: the job may have to wait until
// the disk works again.
func (c *eligibility) failed(w *World, path string) {
	if id, is := jobOfPath(path); is && c.waiting[id] != nil {
		c.waiting[id].odd = true
	}
	for _, known := range c.waiting { // the order does not matter
		known.odd = known.odd || path == paths.QueueDir && known.changed >= w.effective.quiescentAt
	}
}

func (c *eligibility) fileChanged(w *World, e fileChanged) {
	if e.job == nil || e.job.Status() != job.Queued || paths.IsJobLivelock(e.job.Livelock) {
		delete(c.waiting, e.id)
		return
	}
	c.see(w, e.id, e.job)
}

func (c *eligibility) see(w *World, id int64, j *job.Job) {
	if j == nil || j.Status() != job.Queued {
		return
	}
	known := c.waiting[id]
	if known == nil {
		known = &waitingJob{odd: !Unconstrained(j) || c.held[id] || c.chosen[id] || w.startTimes[tagOfJob(j)] || c.timed[id]}
		c.waiting[id] = known
	}
	known.job, known.changed = j, w.stepCount
}
