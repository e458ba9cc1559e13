package sim

import "math/rand/v2"

// runnable has something to do. It is added to the kernel once, and adds itself again as long
// as it has more.
type runnable interface{ run() }

// kernel holds what can happen next; the seed chooses.
type kernel struct {
	rng   *rand.Rand
	ready []runnable
}

func (s *kernel) add(r runnable) { s.ready = append(s.ready, r) }

// step runs one of the runnables; false if there is none.
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

// lifetime is that of a daemon or a process. What is still to be done in it is not done when
// it is over.
//
// A lifetime may be paused: nothing is done in it until it is resumed.
type lifetime struct {
	over, paused bool
	deferred     []runnable
	timers       []*timer
}

// defers keeps r for later while the lifetime is paused.
func (l *lifetime) defers(r runnable) bool {
	if l.over || !l.paused {
		return false
	}
	l.deferred = append(l.deferred, r)
	return true
}

// thread runs functions one after the other, each in a step. It stands for a goroutine or a
// process that can be interrupted between any two. Its functions are dropped when its lifetime
// is over.
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
