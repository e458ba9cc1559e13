// Package kernel chooses what happens next in a simulated world. A Kernel holds what is
// runnable and lets the seed choose one for each step. A Clock is virtual time, which stands
// still until its next timer fires. A Thread runs functions in order, one a step. A Lifetime
// ends or pauses everything of one daemon or process.
//
// It knows nothing of what it runs. Nothing here starts a goroutine or reads the real time.
package kernel

import "math/rand/v2"

// Runnable is a thing that can take a step. It is added to the kernel once, and adds itself again
// as long as it has more steps.
type Runnable interface{ Run() }

// Kernel holds all runnables, and draws the next one.
type Kernel struct {
	rng   *rand.Rand
	ready []Runnable
}

// New makes a kernel that chooses by rng.
func New(rng *rand.Rand) *Kernel { return &Kernel{rng: rng} }

// Add makes r runnable.
func (s *Kernel) Add(r Runnable) { s.ready = append(s.ready, r) }

// Step runs one of the runnables, drawn at random; false if there is none.
func (s *Kernel) Step() bool {
	if len(s.ready) == 0 {
		return false
	}
	i, last := s.rng.IntN(len(s.ready)), len(s.ready)-1
	chosen := s.ready[i]
	s.ready[i] = s.ready[last]
	s.ready[last] = nil
	s.ready = s.ready[:last]
	chosen.Run()
	return true
}

// Idle reports whether no step is possible before time passes.
func (s *Kernel) Idle() bool { return len(s.ready) == 0 }

// Lifetime is the life of a daemon or a process. When it has ended, its remaining steps are
// dropped.
//
// A lifetime may be paused: its steps wait until it is resumed.
type Lifetime struct {
	Over, Paused bool
	deferred     []Runnable
	timers       []*timer
}

// Defers keeps r for later while the lifetime is paused, and reports whether it does.
func (l *Lifetime) Defers(r Runnable) bool {
	if l.Over || !l.Paused {
		return false
	}
	l.deferred = append(l.deferred, r)
	return true
}

// Thread runs functions one after the other, each as one step. It stands for a goroutine or a
// process that can be interrupted between any two. When its lifetime ends, its functions are
// dropped.
type Thread struct {
	kernel *Kernel
	Life   *Lifetime
	queue  []func()
	armed  bool
}

// NewThread makes a thread that ends with l.
func NewThread(s *Kernel, l *Lifetime) *Thread { return &Thread{kernel: s, Life: l} }

// Busy reports whether functions wait to be run.
func (t *Thread) Busy() bool { return len(t.queue) > 0 }

// Drop drops the functions that wait to be run.
func (t *Thread) Drop() { t.queue = nil }

// Do adds a function to the thread, to be run in its order. A thread whose life is over drops it.
func (t *Thread) Do(f func()) {
	if t.Life.Over {
		return
	}
	t.queue = append(t.queue, f)
	t.arm()
}

func (t *Thread) arm() {
	if !t.armed && len(t.queue) > 0 {
		t.armed = true
		t.kernel.Add(t)
	}
}

func (t *Thread) Run() {
	if t.Life.Defers(t) {
		return
	}
	t.armed = false
	if t.Life.Over || len(t.queue) == 0 {
		t.queue = nil
		return
	}
	f := t.queue[0]
	t.queue[0] = nil
	t.queue = t.queue[1:]
	f()
	t.arm()
}
