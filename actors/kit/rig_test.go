package kit

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"
)

// fakeClock stands still until it is advanced.
type fakeClock struct {
	mu     sync.Mutex
	now    time.Time
	seq    int
	timers []*fakeTimer
}

type fakeTimer struct {
	at  time.Time
	seq int
	f   func()
}

func newFakeClock() *fakeClock {
	return &fakeClock{now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fakeClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seq++
	timer := &fakeTimer{at: c.now.Add(d), seq: c.seq, f: f}
	c.timers = append(c.timers, timer)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		n := len(c.timers)
		c.timers = slices.DeleteFunc(c.timers, func(t *fakeTimer) bool { return t == timer })
		return len(c.timers) < n
	}
}

// waiting is the number of pending timers.
func (c *fakeClock) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.timers)
}

// advance runs the timers that are due within d, in order.
func (c *fakeClock) advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for {
		slices.SortFunc(c.timers, func(a, b *fakeTimer) int {
			if n := a.at.Compare(b.at); n != 0 {
				return n
			}
			return a.seq - b.seq
		})
		if len(c.timers) == 0 || c.timers[0].at.After(end) {
			break
		}
		first := c.timers[0]
		c.timers, c.now = c.timers[1:], first.at
		c.mu.Unlock()
		first.f()
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// rig is an Env whose actors record their messages.
type rig struct {
	t     testing.TB
	env   *Env
	clock *fakeClock
	logs  *logrustest.Hook

	mu        sync.Mutex
	instances map[string]int
	trace     []string
}

func newRig(t testing.TB, change ...func(*Options)) *rig {
	log, hook := logrustest.NewNullLogger()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.TraceLevel)
	r := &rig{t: t, clock: newFakeClock(), logs: hook, instances: map[string]int{}}
	options := Options{Log: log, Clock: r.clock}
	for _, c := range change {
		c(&options)
	}
	r.env = New(options)
	return r
}

// inBubble runs a test in which settle waits until no actor has anything left to do.
func inBubble(t *testing.T, f func(*testing.T, *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t)) })
}

func settle() { synctest.Wait() }

// spec describes an actor of a test.
type spec struct {
	name     string
	policy   *Policy
	children []spec
	react    func(actor.Context) // called with every message, after it was recorded
}

// do is a message whose function the actor runs.
type do func(actor.Context)

// probe is an instance of a spec.
type probe struct {
	rig  *rig
	spec spec
	name string // spec.name#instance
}

func (r *rig) props(s spec) *actor.Props {
	var opts []Option
	if s.policy != nil {
		opts = append(opts, Supervise(r.env.Strategy(*s.policy)))
	}
	return r.env.Props("kind-"+s.name, func() actor.Actor {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.instances[s.name]++
		return &probe{rig: r, spec: s, name: fmt.Sprintf("%s#%d", s.name, r.instances[s.name])}
	}, opts...)
}

func (p *probe) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		p.rig.note("%s started", p.name)
		for _, child := range p.spec.children {
			_, err := c.SpawnNamed(p.rig.props(child), child.name)
			if err != nil {
				p.rig.note("%s cannot spawn: %v", p.name, err)
			}
		}
	case *actor.Restarting:
		p.rig.note("%s restarting", p.name)
	case *actor.Stopping:
		p.rig.note("%s stopping", p.name)
	case *actor.Stopped:
		p.rig.note("%s stopped", p.name)
	case *actor.Terminated:
		p.rig.note("%s terminated %s", p.name, m.Who.Id)
	case string:
		p.rig.note("%s got %s", p.name, m)
		if strings.HasPrefix(m, "boom") {
			panic("panic of " + p.name)
		}
		if c.Sender() != nil {
			c.Respond("re " + m)
		}
	case do:
		m(c)
	}
	if p.spec.react != nil {
		p.spec.react(c)
	}
}

func (r *rig) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = append(r.trace, fmt.Sprintf(format, args...))
}

// of returns what the instances of these actors have recorded, in order; without names,
// what all have recorded.
func (r *rig) of(names ...string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(names) == 0 {
		return slices.Clone(r.trace)
	}
	var lines []string
	for _, line := range r.trace {
		name, _, _ := strings.Cut(line, "#")
		if slices.Contains(names, name) {
			lines = append(lines, line)
		}
	}
	return lines
}

func (r *rig) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trace = nil
}

func (r *rig) root(s spec) (*actor.PID, <-chan struct{}) {
	r.t.Helper()
	pid, done, err := r.env.SpawnRoot(r.props(s), s.name)
	require.NoError(r.t, err)
	return pid, done
}

func (r *rig) send(path string, msgs ...any) {
	pid := r.env.PID(path)
	for _, m := range msgs {
		r.env.System().Root.Send(pid, m)
	}
}

// failures are the logged decisions, "actor directive attempt delay".
func (r *rig) failures() []string {
	var lines []string
	for _, entry := range r.logs.AllEntries() {
		if entry.Message == "child failed" {
			d := entry.Data
			lines = append(lines, fmt.Sprintf("%v %v %v %v", d["actor"], d["directive"], d["attempt"], d["delay"]))
		}
	}
	return lines
}

// panics are the logged panics, "actor op err".
func (r *rig) panics(text string) []string {
	var lines []string
	for _, entry := range r.logs.AllEntries() {
		if entry.Message == text {
			d := entry.Data
			lines = append(lines, fmt.Sprintf("%v %v %v", d["actor"], d["op"], d["err"]))
		}
	}
	return lines
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

func exists(r *rig, path string) bool {
	_, ok := r.env.System().ProcessRegistry.GetLocal(path)
	return ok
}
