// Package deadlock finds waits that cannot end: cycles of jobs that wait for each other for locks, for dependencies, or because a process
// of one job waits for the end of another. It is pure.
package deadlock

import (
	"slices"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// Vertex is what a job waits for: with End the end of a job, without it the end of the job's current opcode, which frees its locks.
type Vertex struct {
	Job job.ID
	End bool
}

// Cause is why a job waits for another.
type Cause uint8

const (
	// Process: a process of the job waits for the end of the other job.
	Process Cause = iota
	// Dependency: an opcode of the job depends on the end of the other job.
	Dependency
	// Lock: an opcode of the job needs a lock that the other job has.
	Lock
)

// Wait is an edge of the graph of waits.
type Wait struct {
	For  Vertex
	By   Cause
	Lock lock.Lock // of cause Lock; otherwise zero
}

// Step is a wait of a path: Job waits for On.
type Step struct {
	Job, On job.ID
	By      Cause
	Lock    lock.Lock
}

// Search looks for cycles and paths in the graph of what jobs wait for. Waits are those of a vertex; the end of a job waits for its
// current opcode in any case. Waits must not say that a job waits for itself.
type Search struct {
	Waits func(Vertex) []Wait
	// Budget is how many vertices may still be examined. Each examined vertex takes one. Without budget nothing is found.
	Budget int
}

// Cycle is a shortest cycle of waits through a vertex, from that vertex on; nil if there is none, or none was found within the budget.
func (s *Search) Cycle(through Vertex) []Step {
	return s.Path(through, func(v Vertex) bool { return v == through })
}

// origin is how a vertex was reached. Without a wait it is the current opcode of a job whose end was reached before.
type origin struct {
	from Vertex
	wait *Wait
}

// Path is a shortest path of at least one wait to a vertex for which reached is true; nil if there is none, or none was found within the
// budget.
func (s *Search) Path(from Vertex, reached func(Vertex) bool) []Step {
	origins := map[Vertex]origin{}
	queue := []Vertex{from}
	for ; len(queue) > 0 && s.Budget > 0; queue = queue[1:] {
		s.Budget--
		v := queue[0]
		waits := s.Waits(v)
		next := make([]origin, 0, len(waits)+1)
		if v.End {
			next = append(next, origin{from: v})
		}
		for i := range waits {
			next = append(next, origin{v, &waits[i]})
		}
		for _, o := range next {
			to := Vertex{Job: v.Job}
			if o.wait != nil {
				to = o.wait.For
			}
			if reached(to) {
				return stepsTo(origins, from, o)
			}
			if _, seen := origins[to]; !seen && to != from {
				origins[to] = o
				queue = append(queue, to)
			}
		}
	}
	return nil
}

// stepsTo are the waits from a vertex to the last one.
func stepsTo(origins map[Vertex]origin, from Vertex, last origin) []Step {
	var steps []Step
	for o := last; ; o = origins[o.from] {
		if o.wait != nil {
			steps = append(steps, Step{o.from.Job, o.wait.For.Job, o.wait.By, o.wait.Lock})
		}
		if o.from == from {
			slices.Reverse(steps)
			return steps
		}
	}
}
