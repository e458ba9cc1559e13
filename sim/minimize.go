package sim

import (
	"errors"
	"fmt"
)

// Minimal is the smallest failing run found.
type Minimal struct {
	Repro  Repro // with a recipe
	Result Result
	Runs   int // number of runs that were needed
}

// ErrGood: the run does not fail, so there is nothing to minimize.
var ErrGood = errors.New("the run is good")

// Minimize looks for a smaller run in which the same checker fails, with fewer faults and fewer requests. It makes at most so many runs,
// and returns the smallest. progress, if set, is called after each run with the size of the smallest one so far. The error is ErrGood if
// the run does not fail.
func Minimize(c Repro, runs int, progress func(run, faults, requests int)) (Minimal, error) {
	first, err := c.Run(nil)
	if err != nil {
		return Minimal{}, err
	}
	var broken *Violation
	if !errors.As(first.Err, &broken) {
		return Minimal{}, ErrGood
	}
	s := &minimizer{of: c, checker: broken.Checker, left: runs, progress: progress}
	s.best = Minimal{Repro: c, Result: first, Runs: 1}
	if !s.fails(first.Recipe) {
		return s.best, fmt.Errorf("seed %d fails, but not again with all of its faults written down: this is an error of the simulation", c.Seed)
	}
	for again := true; again && s.left > 0; {
		was := s.size()
		shrink(s.best.Repro.Recipe.Faults, func(some []Fault) bool { return s.without(func(r *Recipe) { r.Faults = some }) })
		shrink(s.best.Repro.Recipe.Requests, func(some []Request) bool { return s.without(func(r *Recipe) { r.Requests = some }) })
		again = s.size() < was
	}
	return s.best, nil
}

type minimizer struct {
	of       Repro
	checker  string
	left     int
	best     Minimal
	progress func(run, faults, requests int)
}

func (s *minimizer) size() int {
	return len(s.best.Repro.Recipe.Faults) + len(s.best.Repro.Recipe.Requests)
}

// ordersTried is the number of orders of steps in which a smaller run may fail: most faults are
// found only if two things happen in one of two orders.
const ordersTried = 4

// without tries a change of the best recipe, with a few orders of the steps. It reports true if the run still fails, and is then the
// best.
func (s *minimizer) without(change func(*Recipe)) bool {
	r := *s.best.Repro.Recipe
	change(&r)
	for order := range uint64(ordersTried) {
		if order > 0 {
			r.Order = order
		}
		if s.fails(r) {
			return true
		}
	}
	return false
}

// fails reports whether a run with that recipe violates the same invariant; then it is the best
// one.
func (s *minimizer) fails(r Recipe) bool {
	if s.left == 0 {
		return false
	}
	s.left--
	s.best.Runs++
	c := s.of
	r.Faults, r.Requests = append([]Fault{}, r.Faults...), append([]Request{}, r.Requests...)
	c.Recipe = &r
	result, err := c.Run(nil)
	var broken *Violation
	same := err == nil && errors.As(result.Err, &broken) && broken.Checker == s.checker
	if same {
		s.best.Repro, s.best.Result = c, result
	}
	if s.progress != nil && s.best.Repro.Recipe != nil {
		s.progress(s.best.Runs, len(s.best.Repro.Recipe.Faults), len(s.best.Repro.Recipe.Requests))
	}
	return same
}

// shrink removes elements from a list: first halves, then smaller and smaller parts (Zeller's
// ddmin). still reports whether a list is sufficient.
func shrink[T any](list []T, still func([]T) bool) {
	for size := (len(list) + 1) / 2; size > 0 && len(list) > 0; size /= 2 {
		for at := 0; at < len(list); {
			without := append(append([]T{}, list[:at]...), list[min(at+size, len(list)):]...)
			if still(without) {
				list = without
			} else {
				at += size
			}
		}
	}
}
