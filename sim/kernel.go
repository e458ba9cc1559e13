package sim

import "math/rand/v2"

// runnable has something to do. It is added to steps once, and again by itself
// as long as it has more.
type runnable interface{ run() }

// kernel is what can happen next: the seed chooses.
type kernel struct {
	rng   *rand.Rand
	ready []runnable
}

func (s *kernel) add(r runnable) { s.ready = append(s.ready, r) }

// step lets one of those who are ready do one thing; false if nobody is.
func (s *kernel) step() bool {
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

// lifetime is that of a daemon or a process: what was still to be done in its name
// is not done when it is over.
//
// A life may also be paused: nothing is done in its name until it goes on.
type lifetime struct {
	over, paused bool
	deferred     []runnable
	timers       []*timer
}

// defers keeps r for later while the life is paused.
func (l *lifetime) defers(r runnable) bool {
	if l.over || !l.paused {
		return false
	}
	l.deferred = append(l.deferred, r)
	return true
}

// thread does things one after the other, each of them a step: a goroutine, or a
// process, that can be interrupted between any two. Its things are dropped when
// its life is over.
type thread struct {
	kernel *kernel
	life   *lifetime
	queue  []func()
	armed  bool
}

func newThread(s *kernel, l *lifetime) *thread { return &thread{kernel: s, life: l} }

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
		t.kernel.add(t)
	}
}

func (t *thread) run() {
	if t.life.defers(t) {
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
