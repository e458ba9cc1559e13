package sim

import "math/rand/v2"

// runnable has something to do. It is added to steps once, and again by itself
// as long as it has more.
type runnable interface{ run() }

// steps is what can happen next: the seed chooses.
type steps struct {
	rng   *rand.Rand
	ready []runnable
}

func (s *steps) add(r runnable) { s.ready = append(s.ready, r) }

// step lets one of those who are ready do one thing; false if nobody is.
func (s *steps) step() bool {
	if len(s.ready) == 0 {
		return false
	}
	i, last := s.rng.IntN(len(s.ready)), len(s.ready)-1
	chosen := s.ready[i]
	s.ready[i] = s.ready[last]
	s.ready[last] = nil
	s.ready = s.ready[:last]
	chosen.run()
	return true
}

// life is that of a daemon or a process: what was still to be done in its name
// is not done when it is over.
//
// A life may also be paused: nothing is done in its name until it goes on.
type life struct {
	over, paused bool
	held         []runnable
	timers       []*timer
}

// holds keeps r for later while the life is paused.
func (l *life) holds(r runnable) bool {
	if l.over || !l.paused {
		return false
	}
	l.held = append(l.held, r)
	return true
}

// thread does things one after the other, each of them a step: a goroutine, or a
// process, that can be interrupted between any two. Its things are dropped when
// its life is over.
type thread struct {
	steps *steps
	life  *life
	queue []func()
	armed bool
}

func newThread(s *steps, l *life) *thread { return &thread{steps: s, life: l} }

func (t *thread) do(f func()) {
	if t.life.over {
		return
	}
	t.queue = append(t.queue, f)
	t.arm()
}

func (t *thread) arm() {
	if !t.armed && len(t.queue) > 0 {
		t.armed = true
		t.steps.add(t)
	}
}

func (t *thread) run() {
	if t.life.holds(t) {
		return
	}
	t.armed = false
	if t.life.over || len(t.queue) == 0 {
		t.queue = nil
		return
	}
	f := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	f()
	t.arm()
}
