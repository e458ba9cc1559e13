package dependency

import (
	"cmp"
	"slices"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// State says whether a job's next opcode may begin.
type State uint8

const (
	// Ready: no dependency blocks it.
	Ready State = iota
	// Waiting: a job that it depends on has not ended, or must be looked up.
	Waiting
	// Unrunnable: the opcode can never begin.
	Unrunnable
)

// Decision is the result for the next opcode of a job.
type Decision struct {
	ID    job.ID
	Op    int
	State State

	End   job.Status // of an unrunnable job: Error or Canceled
	Cause Cause      // of an unrunnable job
	// Lookups are the jobs that the caller must look up for a waiting job, in the order of the dependencies. Jobs that
	// an earlier decision has named are not in it again.
	Lookups []job.ID
}

// Lookup is the caller's knowledge about a job.
type Lookup uint8

const (
	// Found: the status is known, and Ended will report the end.
	Found Lookup = iota
	// Unknown: the job may be archived, or may never have existed. The caller looks it up, and reports Ended or
	// Missing.
	Unknown
	// NoSuchJob: the job does not exist, or can never be depended on.
	NoSuchJob
)

// Graph decides when a job's dependencies are met: it stores which job waits for the end of which other. The zero value is ready to use.
//
// A job is in the graph while it waits. A decision of Ready or Unrunnable removes it. The caller ends an unrunnable
// job, and reports its end with Ended like any other end; that makes the jobs that depend on it unrunnable in turn.
type Graph struct {
	waiters  map[job.ID]*waiter
	blockers map[job.ID]*blocker // the jobs for which other jobs wait
}

// waiter is a job that waits. open is how many of its edges have a blocker: at least one, between calls.
type waiter struct {
	id     job.ID
	op     int
	edges  []edge // in the order of the dependencies, without those that were met when the job was added
	open   int
	failed *edge // the first edge that cannot be met, during resolve
}

// edge is one dependency: waiter.edges[index]. blocker.edges[blockerIndex] points to it until the dependency is met;
// then blocker is nil.
type edge struct {
	dependency   opcode.Dependency
	waiter       *waiter
	index        int
	blocker      *blocker
	blockerIndex int
}

type blocker struct {
	id              job.ID
	edges           []*edge // in no order; at least one
	lookupRequested bool    // a decision has asked the caller to look it up
}

// Add records that opcode op of the job, the next to run, may begin only when deps are met. It replaces the job's
// earlier dependencies. One dependency that cannot be met makes the job unrunnable, regardless of the others. If there
// are several, the first is the cause.
func (g *Graph) Add(id job.ID, op int, deps []opcode.Dependency, lookup func(job.ID) (job.Status, Lookup)) Decision {
	g.Forget(id)
	v := Decision{ID: id, Op: op, State: Ready}
	var open []opcode.Dependency
	var unknown []job.ID
	for _, d := range deps {
		status, found, kind := lookUp(id, d, lookup)
		if found == NoSuchJob {
			return v.unrunnable(job.Error, Cause{Dependency: d, Kind: kind})
		}
		if found == Found {
			switch outcome := Evaluate(d, status); outcome {
			case Met:
				continue
			case Fails, Cancels:
				return v.unrunnable(outcome.end(), Cause{Dependency: d, Kind: WrongStatus, Status: status})
			}
		} else {
			unknown = append(unknown, job.ID(d.Job))
		}
		open = append(open, d)
	}
	if len(open) > 0 {
		v.State = Waiting
		g.addWaiter(id, op, open)
		v.Lookups = g.newLookups(unknown)
	}
	return v
}

// lookUp evaluates a dependency. If the job cannot be depended on, kind says why.
func lookUp(id job.ID, d opcode.Dependency, lookup func(job.ID) (job.Status, Lookup)) (status job.Status, found Lookup, kind CauseKind) {
	other := job.ID(d.Job)
	switch {
	case other == id:
		return 0, NoSuchJob, SelfDependency
	case other < 0: // a relative dependency that was not resolved
		return 0, NoSuchJob, MissingJob
	}
	status, found = lookup(other)
	if other > id && found != NoSuchJob {
		return 0, NoSuchJob, LaterJob
	}
	return status, found, MissingJob
}

func (v Decision) unrunnable(end job.Status, cause Cause) Decision {
	v.State, v.End, v.Cause = Unrunnable, end, cause
	return v
}

// end is the status of a job with a dependency that Fails or Cancels.
func (o Outcome) end() job.Status {
	if o == Cancels {
		return job.Canceled
	}
	return job.Error
}

func (g *Graph) addWaiter(id job.ID, op int, open []opcode.Dependency) {
	if g.waiters == nil {
		g.waiters, g.blockers = map[job.ID]*waiter{}, map[job.ID]*blocker{}
	}
	w := &waiter{id: id, op: op, edges: make([]edge, len(open)), open: len(open)}
	for i, d := range open {
		b := g.blockers[job.ID(d.Job)]
		if b == nil {
			b = &blocker{id: job.ID(d.Job)}
			g.blockers[b.id] = b
		}
		w.edges[i] = edge{dependency: d, waiter: w, index: i, blocker: b, blockerIndex: len(b.edges)}
		b.edges = append(b.edges, &w.edges[i])
	}
	g.waiters[id] = w
}

// newLookups returns those of the unknown jobs that no earlier decision asked to look up, and marks them as asked for.
func (g *Graph) newLookups(unknown []job.ID) (ids []job.ID) {
	for _, id := range unknown {
		if b := g.blockers[id]; !b.lookupRequested {
			b.lookupRequested = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Ended reports that a job has ended, or that a lookup found an ended one. It returns the jobs that become ready or
// unrunnable, by id. It panics if the status is not final: an archived job without a final status never gets one, and
// must be reported as Missing.
func (g *Graph) Ended(id job.ID, status job.Status) []Decision {
	if !status.Final() {
		panic("dependency: job " + id.String() + " has ended with status " + status.String())
	}
	return g.resolve(id,
		func(d opcode.Dependency) Outcome { return Evaluate(d, status) },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: WrongStatus, Status: status} })
}

// Missing reports that a job that was looked up does not exist. It returns the jobs that become unrunnable, by id.
func (g *Graph) Missing(id job.ID) []Decision {
	return g.resolve(id,
		func(opcode.Dependency) Outcome { return Fails },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: MissingJob} })
}

// resolve removes a blocker. It returns the decisions about the jobs that need not wait any longer, and forgets these jobs: they are
// ready, or unrunnable if a dependency is unmet.
func (g *Graph) resolve(id job.ID, evaluate func(opcode.Dependency) Outcome, cause func(opcode.Dependency) Cause) []Decision {
	b := g.blockers[id]
	if b == nil {
		return nil
	}
	delete(g.blockers, id)
	var resolved []*waiter
	for _, e := range b.edges {
		w := e.waiter
		e.blocker = nil
		w.open--
		unmet := evaluate(e.dependency) != Met
		if w.open == 0 || unmet && w.failed == nil {
			resolved = append(resolved, w)
		}
		// A job may name the same job twice, and only the first dependency may fail.
		if unmet && (w.failed == nil || e.index < w.failed.index) {
			w.failed = e
		}
	}
	slices.SortFunc(resolved, func(a, b *waiter) int { return cmp.Compare(a.id, b.id) })
	var decisions []Decision
	for _, w := range slices.Compact(resolved) {
		v := Decision{ID: w.id, Op: w.op, State: Ready}
		if w.failed != nil {
			d := w.failed.dependency
			v = v.unrunnable(evaluate(d).end(), cause(d))
		}
		decisions = append(decisions, v)
		g.Forget(w.id)
	}
	return decisions
}

// Forget removes a job that stops waiting for any reason. Jobs that wait for its end continue to wait.
func (g *Graph) Forget(id job.ID) {
	w := g.waiters[id]
	if w == nil {
		return
	}
	delete(g.waiters, id)
	for i := range w.edges {
		if e := &w.edges[i]; e.blocker != nil {
			g.removeEdge(e)
		}
	}
}

// removeEdge takes an edge from its blocker. The blocker's last edge takes its index.
func (g *Graph) removeEdge(e *edge) {
	b := e.blocker
	last := len(b.edges) - 1
	b.edges[e.blockerIndex] = b.edges[last]
	b.edges[e.blockerIndex].blockerIndex = e.blockerIndex
	b.edges[last] = nil
	b.edges = b.edges[:last]
	if last == 0 {
		delete(g.blockers, b.id)
	}
	e.blocker = nil
}

// Unmet are the dependencies of a waiting job that are not met yet, in their order.
func (g *Graph) Unmet(id job.ID) []opcode.Dependency {
	w := g.waiters[id]
	if w == nil {
		return nil
	}
	open := make([]opcode.Dependency, 0, w.open)
	for i := range w.edges {
		if e := &w.edges[i]; e.blocker != nil {
			open = append(open, e.dependency)
		}
	}
	return open
}

// WaitingJob is a job that waits for others, and the dependencies of its next opcode that are not met yet.
type WaitingJob struct {
	ID    job.ID
	Op    int
	Unmet []opcode.Dependency
}

// WaitingJobs are the jobs that wait, by id.
func (g *Graph) WaitingJobs() []WaitingJob {
	all := make([]WaitingJob, 0, len(g.waiters))
	for id, w := range g.waiters {
		all = append(all, WaitingJob{ID: id, Op: w.op, Unmet: g.Unmet(id)})
	}
	slices.SortFunc(all, func(a, b WaitingJob) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// OpenLookups are the jobs that decisions have asked to look up and that were not reported since, by id. A caller that
// restarts looks them up again.
func (g *Graph) OpenLookups() (ids []job.ID) {
	for id, b := range g.blockers {
		if b.lookupRequested {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
