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
	// Held: a job that it depends on has not ended, or has to be looked up.
	Held
	// Doomed: it never will.
	Doomed
)

// Verdict is about the next opcode of a job.
type Verdict struct {
	ID    job.ID
	Op    int
	State State

	End   job.Status // of a doomed job: Error or Canceled
	Cause Cause      // of a doomed job
	// LookUp are the jobs that have to be looked up for a held one, in the order
	// in which they are declared, but for those that a former verdict has named.
	LookUp []job.ID
}

// Knowledge is what the asker knows of a job.
type Knowledge uint8

const (
	// Known: its status, and its end will be told by Ended.
	Known Knowledge = iota
	// Unclear: it may be archived, or never have been. Who looks it up tells
	// Ended or Missing.
	Unclear
	// Absent: there is no such job, and never will be one that counts.
	Absent
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
	id    job.ID
	op    int
	edges []edge // as declared, but for what was met from the beginning
	open  int
	bad   *edge // the first that cannot be met, while an end is dealt with
}

// edge is one dependency: waiter.edges[index]. blocker.edges[place] points to it,
// until it is met: then there is no blocker.
type edge struct {
	dependency opcode.Dependency
	waiter     *waiter
	index      int
	blocker    *blocker
	place      int
}

type blocker struct {
	id    job.ID
	edges []*edge // in no order; at least one
	asked bool    // somebody was told to look it up
}

// Hold records that opcode op of the job, the next to run, may begin only when
// deps are met. It takes the place of what the job was held for before. A single
// dependency that cannot be met dooms the job, whatever becomes of the others; of
// several the first counts.
func (g *Graph) Hold(id job.ID, op int, deps []opcode.Dependency, known func(job.ID) (job.Status, Knowledge)) Verdict {
	g.Forget(id)
	v := Verdict{ID: id, Op: op, State: Ready}
	var open []opcode.Dependency
	var unclear []job.ID
	for _, d := range deps {
		status, knowledge, kind := look(id, d, known)
		if knowledge == Absent {
			return v.doom(job.Error, Cause{Dependency: d, Kind: kind})
		}
		if knowledge == Known {
			switch outcome := Judge(d, status); outcome {
			case Met:
				continue
			case Fails, Cancels:
				return v.doom(outcome.end(), Cause{Dependency: d, Kind: Unfit, Status: status})
			}
		} else {
			unclear = append(unclear, job.ID(d.Job))
		}
		open = append(open, d)
	}
	if len(open) > 0 {
		v.State = Held
		g.add(id, op, open)
		v.LookUp = g.ask(unclear)
	}
	return v
}

// look finds out about a dependency; where it is of a job that is not there for
// this one, kind is why.
func look(id job.ID, d opcode.Dependency, known func(job.ID) (job.Status, Knowledge)) (status job.Status, k Knowledge, kind Kind) {
	on := job.ID(d.Job)
	switch {
	case on == id:
		return 0, Absent, Itself
	case on < 0: // relative, and never resolved
		return 0, Absent, Missing
	}
	status, k = known(on)
	if on > id && k != Absent {
		return 0, Absent, Later
	}
	return status, k, Missing
}

func (v Verdict) doom(end job.Status, cause Cause) Verdict {
	v.State, v.End, v.Cause = Doomed, end, cause
	return v
}

// end is the status of a job with a dependency that Fails or Cancels.
func (o Outcome) end() job.Status {
	if o == Cancels {
		return job.Canceled
	}
	return job.Error
}

func (g *Graph) add(id job.ID, op int, open []opcode.Dependency) {
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
		w.edges[i] = edge{dependency: d, waiter: w, index: i, blocker: b, place: len(b.edges)}
		b.edges = append(b.edges, &w.edges[i])
	}
	g.waiters[id] = w
}

// ask gives back, once, those that nobody was told to look up.
func (g *Graph) ask(unclear []job.ID) (ids []job.ID) {
	for _, id := range unclear {
		if b := g.blockers[id]; !b.asked {
			b.asked = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Ended tells that a job has ended, or that one looked up has. It returns those
// that are ready or doomed by that, by id. A status that is not final panics: of
// a job in the archive that has none nobody will ever tell another, it is Missing.
func (g *Graph) Ended(id job.ID, status job.Status) []Verdict {
	if !status.Final() {
		panic("depend: job " + id.String() + " has ended with status " + status.String())
	}
	return g.settle(id,
		func(d opcode.Dependency) Outcome { return Judge(d, status) },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: Unfit, Status: status} })
}

// Missing tells that a job that was looked up is not there. It returns those that
// are doomed by that, by id.
func (g *Graph) Missing(id job.ID) []Verdict {
	return g.settle(id,
		func(opcode.Dependency) Outcome { return Fails },
		func(d opcode.Dependency) Cause { return Cause{Dependency: d, Kind: Missing} })
}

// settle takes out a blocker, and those who need not wait any more.
func (g *Graph) settle(id job.ID, judge func(opcode.Dependency) Outcome, cause func(opcode.Dependency) Cause) []Verdict {
	b := g.blockers[id]
	if b == nil {
		return nil
	}
	delete(g.blockers, id)
	var settled []*waiter
	for _, e := range b.edges {
		w := e.waiter
		e.blocker = nil
		w.open--
		bad := judge(e.dependency) != Met
		if w.open == 0 || bad && w.bad == nil {
			settled = append(settled, w)
		}
		// A job may name another twice, and only the first time in vain.
		if bad && (w.bad == nil || e.index < w.bad.index) {
			w.bad = e
		}
	}
	slices.SortFunc(settled, func(a, b *waiter) int { return cmp.Compare(a.id, b.id) })
	var verdicts []Verdict
	for _, w := range slices.Compact(settled) {
		v := Verdict{ID: w.id, Op: w.op, State: Ready}
		if w.bad != nil {
			d := w.bad.dependency
			v = v.doom(judge(d).end(), cause(d))
		}
		verdicts = append(verdicts, v)
		g.Forget(w.id)
	}
	return verdicts
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
			g.cut(e)
		}
	}
}

// cut takes an edge from its blocker: the last one comes in its place.
func (g *Graph) cut(e *edge) {
	b := e.blocker
	last := len(b.edges) - 1
	b.edges[e.place] = b.edges[last]
	b.edges[e.place].place = e.place
	b.edges[last] = nil
	b.edges = b.edges[:last]
	if last == 0 {
		delete(g.blockers, b.id)
	}
	e.blocker = nil
}

// Waits are the dependencies of a held job that are not met yet, as declared.
func (g *Graph) Waits(id job.ID) []opcode.Dependency {
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

// Waiting is a job that is held, and what is not met yet of what the opcode
// depends on.
type Waiting struct {
	ID    job.ID
	Op    int
	Waits []opcode.Dependency
}

// All are the jobs that are held, by id.
func (g *Graph) All() []Waiting {
	all := make([]Waiting, 0, len(g.waiters))
	for id, w := range g.waiters {
		all = append(all, Waiting{ID: id, Op: w.op, Waits: g.Waits(id)})
	}
	slices.SortFunc(all, func(a, b Waiting) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Asked are the jobs of which a verdict has said that they must be looked up, and
// nobody has told what came of it, by id: for who must ask again.
func (g *Graph) Asked() (ids []job.ID) {
	for id, b := range g.blockers {
		if b.asked {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
