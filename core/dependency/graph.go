package dependency

import (
	"cmp"
	"slices"

	"lockstep/core/job"
	"lockstep/core/opcode"
)

// State is whether a job's next opcode may begin.
type State uint8

const (
	// Ready: it may, as far as dependencies go.
	Ready State = iota
	// Waiting: a job that it depends on has not ended, or has to be looked up.
	Waiting
	// Unrunnable: it never will.
	Unrunnable
)

// Decision is about the next opcode of a job.
type Decision struct {
	ID    job.ID
	Op    int
	State State

	End   job.Status // of a doomed job: Error or Canceled
	Cause Cause      // of a doomed job
	// Lookups are the jobs that have to be looked up for a held one, in the order
	// in which they are declared, but for those that a former verdict has named.
	Lookups []job.ID
}

// Lookup is what the asker knows of a job.
type Lookup uint8

const (
	// Found: its status, and its end will be told by Ended.
	Found Lookup = iota
	// Unknown: it may be archived, or never have been. Who looks it up tells
	// Ended or Missing.
	Unknown
	// NoSuchJob: there is no such job, and never will be one that counts.
	NoSuchJob
)

// Graph is who waits for whom. The zero value is ready to use.
//
// A job is in it while it is held: once Ready or Doomed was said it is gone. That
// a doomed job ends, as it must, is told by Ended like any other end, which dooms
// those that depend on it in turn.
type Graph struct {
	waiters  map[job.ID]*waiter
	blockers map[job.ID]*blocker // those that somebody waits for
}

// waiter is a job that is held. open is how many of its edges have a blocker: at
// least one, between calls.
type waiter struct {
	id     job.ID
	op     int
	edges  []edge // as declared, but for what was met from the beginning
	open   int
	failed *edge // the first that cannot be met, while an end is dealt with
}

// edge is one dependency: waiter.edges[index]. blocker.edges[place] points to it,
// until it is met: then there is no blocker.
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
	lookupRequested bool    // somebody was told to look it up
}

// Add records that opcode op of the job, the next to run, may begin only when
// deps are met. It takes the place of what the job was held for before. A single
// dependency that cannot be met dooms the job, whatever becomes of the others; of
// several the first counts.
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

// lookUp finds out about a dependency; where it is of a job that is not there for
// this one, kind is why.
func lookUp(id job.ID, d opcode.Dependency, lookup func(job.ID) (job.Status, Lookup)) (status job.Status, found Lookup, kind CauseKind) {
	other := job.ID(d.Job)
	switch {
	case other == id:
		return 0, NoSuchJob, SelfDependency
	case other < 0: // relative, and never resolved
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

// newLookups gives back, once, those that nobody was told to look up.
func (g *Graph) newLookups(unknown []job.ID) (ids []job.ID) {
	for _, id := range unknown {
		if b := g.blockers[id]; !b.lookupRequested {
			b.lookupRequested = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Ended tells that a job has ended, or that one looked up has. It returns those
// that are ready or doomed by that, by id. A status that is not final panics: of
// a job in the archive that has none nobody will ever tell another, it is Missing.
func (g *Graph) Ended(id job.ID, status job.Status) []Decision {
	if !status.Final() {
		panic("depend: job " + id.String() + " has ended with status " + status.String())
	}
	return g.resolve(id,
		func(d opcode.Dependency) Outcome { return Evaluate(d, status) },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: WrongStatus, Status: status} })
}

// Missing tells that a job that was looked up is not there. It returns those that
// are doomed by that, by id.
func (g *Graph) Missing(id job.ID) []Decision {
	return g.resolve(id,
		func(opcode.Dependency) Outcome { return Fails },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: MissingJob} })
}

// resolve takes out a blocker, and those who need not wait any more.
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
		// A job may name another twice, and only the first time in vain.
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

// Forget takes out a job that does not wait any more, for whatever reason. What
// waits for it does so still, until its end is told.
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

// removeEdge takes an edge from its blocker: the last one comes in its place.
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

// Unmet are the dependencies of a held job that are not met yet, as declared.
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

// WaitingJob is a job that is held, and what is not met yet of what the opcode
// depends on.
type WaitingJob struct {
	ID    job.ID
	Op    int
	Unmet []opcode.Dependency
}

// WaitingJobs are the jobs that are held, by id.
func (g *Graph) WaitingJobs() []WaitingJob {
	all := make([]WaitingJob, 0, len(g.waiters))
	for id, w := range g.waiters {
		all = append(all, WaitingJob{ID: id, Op: w.op, Unmet: g.Unmet(id)})
	}
	slices.SortFunc(all, func(a, b WaitingJob) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// OpenLookups are the jobs of which a verdict has said that they must be looked up, and
// nobody has told what came of it, by id: for who must ask again.
func (g *Graph) OpenLookups() (ids []job.ID) {
	for id, b := range g.blockers {
		if b.lookupRequested {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
