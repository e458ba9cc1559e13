package forecast

import (
	"cmp"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/sched"
)

// Estimate is when a job is expected to start and to end. Start is the moment at which it begins its next opcode; that
// of a running job is zero, and so is what is not known.
type Estimate struct {
	ID      job.ID
	Running bool
	// Start and End are known together, except that the end of a job of an unknown kind is not known.
	Start, End Range
	// LaterThan is before the start, if Start is zero; zero: nothing is known.
	LaterThan time.Time
	// Obstacle is why the start or the end is not known, and By who or what that is.
	Obstacle Obstacle
	By       string
	// Wait is what the job waits for last before it starts, at the typical pace.
	Wait Wait
}

// Range is two moments and the most likely one, in order.
type Range struct{ From, Likely, To time.Time }

func (r Range) known() bool { return !r.Likely.IsZero() }

// WaitKind is what a job waits for.
type WaitKind string

// The kinds of waits.
const (
	ForNothing WaitKind = ""     // it starts now
	ForLocks   WaitKind = "lock" // until the jobs have released locks
	ForSlot    WaitKind = "slot"
	ForLimit   WaitKind = "limit"
	ForJobs    WaitKind = "dependency"
)

// Wait is a wait for the ends of jobs, or of opcodes of these jobs.
type Wait struct {
	Kind WaitKind
	Jobs []job.ID
}

// Estimates are those of all jobs of a world, in the order of starts; running jobs first, then unknown starts, and last jobs that are not
// due, in the order of their times. more is
// asked before each step of a play, and false ends it: jobs that have not started then have LaterThan. In other orders
// than sched.Expected the order is that of the candidates, and nothing is known of pending jobs.
func Estimates(w *World, more func() bool) []Estimate {
	if w.Settings.Order != sched.Expected {
		return inOtherOrder(w)
	}
	var plays [3]*play
	for pace := range plays {
		plays[pace] = newPlay(w, Pace(pace))
		plays[pace].run(more)
	}
	var all []Estimate
	for _, list := range [][]Job{w.Running, w.First, w.Waiting} {
		for i := range list {
			all = append(all, estimate(w, plays, &list[i]))
		}
	}
	slices.SortStableFunc(all, compareStarts)
	for i := range w.Beyond {
		all = append(all, w.beyond(&w.Beyond[i]))
	}
	return all
}

func inOtherOrder(w *World) []Estimate {
	var all []Estimate
	for i, list := range [][]Job{w.Running, w.First, w.Waiting, w.Beyond} {
		for _, j := range list {
			e := Estimate{ID: j.ID, Running: i == 0, Obstacle: OtherOrder, By: string(w.Settings.Order)}
			if j.Obstacle == Due {
				e.Obstacle, e.By, e.LaterThan = Due, "", j.Due
			}
			all = append(all, e)
		}
	}
	return all
}

// compareStarts orders estimates: running jobs, then those with a known start, by the likely one, then the others, and last those that are
// not due, by their times.
func compareStarts(a, b Estimate) int {
	rank := func(e Estimate) int {
		switch {
		case e.Running:
			return 0
		case e.Start.known():
			return 1
		case e.Obstacle == Due:
			return 3
		}
		return 2
	}
	if c := cmp.Or(cmp.Compare(rank(a), rank(b)), a.Start.Likely.Compare(b.Start.Likely)); c != 0 || a.Obstacle != Due {
		return c
	}
	return a.LaterThan.Compare(b.LaterThan)
}

func estimate(w *World, plays [3]*play, j *Job) Estimate {
	e := Estimate{ID: j.ID, Obstacle: j.Obstacle, By: j.By, LaterThan: j.Due}
	typical := plays[Typical].jobs[j.ID]
	if typical == nil {
		return e
	}
	var starts, ends []time.Time
	cut, earliest := false, time.Time{}
	for _, p := range plays {
		r := p.jobs[j.ID]
		if !r.start.IsZero() {
			starts = append(starts, r.start)
		}
		if !r.end.IsZero() {
			ends = append(ends, r.end)
		}
		cut = cut || p.cut
		if at := cmp.Or(r.start, p.now); earliest.IsZero() || at.Before(earliest) {
			earliest = at
		}
	}
	e.Running = slices.ContainsFunc(w.Running, func(r Job) bool { return r.ID == j.ID })
	e.Wait = typical.wait
	switch {
	case e.Running:
	case len(starts) < len(plays) && cut:
		e.LaterThan = earliest
	case len(starts) < len(plays):
		e.Obstacle, e.By = plays[Typical].obstacleOf(typical)
	case typical.guessed != NoObstacle:
		e.LaterThan, e.Obstacle, e.By = earliest, typical.guessed, typical.guessedBy
	default:
		e.Start = rangeOf(starts)
	}
	if e.Running || e.Start.known() {
		if kind, unknown := j.unknownKind(); unknown {
			e.Obstacle, e.By = NoHistory, kind
		} else if len(ends) == len(plays) {
			e.End = rangeOf(ends)
		}
	}
	return e
}

// rangeOf returns the earliest, the typical and the latest of the times that the three plays give.
func rangeOf(times []time.Time) Range {
	return Range{slices.MinFunc(times, time.Time.Compare), times[Typical], slices.MaxFunc(times, time.Time.Compare)}
}

// obstacleOf is why a job has not started although the play has ended.
func (p *play) obstacleOf(j *played) (Obstacle, string) {
	if j.missing > 0 {
		return Dependency, ""
	}
	for _, o := range p.state.Blockers(j.ID, j.Ops[0].Declared) {
		if o.Named {
			return Foreign, o.Name
		}
	}
	if x, _ := p.state.Explain(j.ID, p.now, 0); len(x.FullLimits) > 0 {
		return Limit, x.FullLimits[0].Key
	}
	return Behind, ""
}

// beyond is the estimate of a candidate behind the first ones: it does not start before what keeps it from starting now
// can end.
func (w *World) beyond(j *Job) Estimate {
	p := newPlay(w, Fast)
	e := Estimate{ID: j.ID, LaterThan: w.Now}
	opEnds := map[job.ID]time.Time{}
	first := time.Time{}
	for _, end := range p.ends.Items() {
		opEnds[end.id] = end.at
		if first.IsZero() || end.at.Before(first) {
			first = end.at
		}
	}
	if p.state.SlotsInUse() >= w.Settings.Slots && first.After(e.LaterThan) {
		e.LaterThan = first
	}
	for _, o := range p.state.Blockers(j.ID, j.Ops[0].Declared) {
		if o.Named {
			e.Obstacle, e.By = Foreign, o.Name
		} else if at := opEnds[o.Job]; at.After(e.LaterThan) {
			e.LaterThan = at
		}
	}
	return e
}
