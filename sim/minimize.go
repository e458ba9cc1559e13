package sim

import (
	"errors"
	"fmt"
)

// Minimal is how far a run that fails could be made smaller.
type Minimal struct {
	Case   Case // with a recipe
	Result Result
	Runs   int // that it took
}

// ErrGood: there is nothing to make smaller.
var ErrGood = errors.New("the run is good")

// Minimize looks for a smaller run that the same checker finds fault with: with
// fewer faults and fewer requests. After at most so many runs it ends with the
// smallest so far. told, if set, hears of each run what the smallest one has.
func Minimize(c Case, runs int, told func(run, strikes, asks int)) (Minimal, error) {
	first, err := c.Run(nil)
	if err != nil {
		return Minimal{}, err
	}
	var broken *Violation
	if !errors.As(first.Err, &broken) {
		return Minimal{}, ErrGood
	}
	s := &shrinking{of: c, checker: broken.Checker, left: runs, told: told}
	s.best = Minimal{Case: c, Result: first, Runs: 1}
	if !s.fails(first.Recipe) {
		return s.best, fmt.Errorf("seed %d fails, but not again with all of its faults written down: this is an error of the simulation", c.Seed)
	}
	for again := true; again && s.left > 0; {
		was := s.size()
		shrink(s.best.Case.Recipe.Strikes, func(some []Strike) bool { return s.without(func(r *Recipe) { r.Strikes = some }) })
		shrink(s.best.Case.Recipe.Asks, func(some []Ask) bool { return s.without(func(r *Recipe) { r.Asks = some }) })
		again = s.size() < was
	}
	return s.best, nil
}

type shrinking struct {
	of      Case
	checker string
	left    int
	best    Minimal
	told    func(run, strikes, asks int)
}

func (s *shrinking) size() int {
	return len(s.best.Case.Recipe.Strikes) + len(s.best.Case.Recipe.Asks)
}

// ordersTried is in how many orders of its steps a smaller run may fail: most
// faults are found only if two things happen in one of the two orders.
const ordersTried = 4

// without tries the best recipe with a change.
func (s *shrinking) without(change func(*Recipe)) bool {
	r := *s.best.Case.Recipe
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

// fails: a run with that recipe breaks the same promise. It is the best one then.
func (s *shrinking) fails(r Recipe) bool {
	if s.left == 0 {
		return false
	}
	s.left--
	s.best.Runs++
	c := s.of
	r.Strikes, r.Asks = append([]Strike{}, r.Strikes...), append([]Ask{}, r.Asks...)
	c.Recipe = &r
	result, err := c.Run(nil)
	var broken *Violation
	same := err == nil && errors.As(result.Err, &broken) && broken.Checker == s.checker
	if same {
		s.best.Case, s.best.Result = c, result
	}
	if s.told != nil && s.best.Case.Recipe != nil {
		s.told(s.best.Runs, len(s.best.Case.Recipe.Strikes), len(s.best.Case.Recipe.Asks))
	}
	return same
}

// shrink leaves out of a list what is not needed: first halves of it, then smaller
// and smaller parts (Zeller's ddmin). still says whether a list will do.
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
