package kittest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// ExpectTimeout is how long Expect waits for a message: real time outside of a bubble,
// virtual time inside.
const ExpectTimeout = 10 * time.Second

// Probe stands for a neighbour of the actor under test: it keeps the messages that it gets until the test takes them.
type Probe struct {
	PID *actor.PID

	env     *Env
	mu      sync.Mutex
	answer  func(any) any
	unread  []Envelope
	arrived chan struct{} // one element if unread has grown
}

// Envelope is a message with its sender, which may be nil.
type Envelope struct {
	Message any
	Sender  *actor.PID
}

// Probe spawns a probe with that name, which is an actor that keeps what it receives.
func (e *Env) Probe(name string) *Probe {
	e.t.Helper()
	p := &Probe{env: e, arrived: make(chan struct{}, 1)}
	pid, _, err := e.SpawnRoot(e.Props("probe", func() actor.Actor { return p }), name)
	require.NoError(e.t, err)
	p.PID = pid
	return p
}

// Receive keeps all messages except the framework's own, for the test. A message that the probe has an answer to is answered and not
// kept.
func (p *Probe) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Terminated:
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answer != nil {
		if a := p.answer(ctx.Message()); a != nil {
			ctx.Respond(a)
			return
		}
	}
	p.unread = append(p.unread, Envelope{ctx.Message(), ctx.Sender()})
	select {
	case p.arrived <- struct{}{}:
	default:
	}
}

// Answer makes the probe answer messages with f. Messages for which f returns nil are kept.
func (p *Probe) Answer(f func(any) any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = f
}

// Ask sends a message with the probe as its sender.
func (p *Probe) Ask(to *actor.PID, msg any) {
	p.env.System().Root.RequestWithCustomSender(to, msg, p.PID)
}

// Stop stops the probe.
func (p *Probe) Stop() {
	p.env.System().Root.Stop(p.PID)
	p.env.Settle()
}

// Unread waits until all actors are idle, and removes and returns all messages that the test has not taken.
func (p *Probe) Unread() []any {
	p.env.Settle()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []any
	for _, l := range p.unread {
		all = append(all, l.Message)
	}
	p.unread = nil
	return all
}

// Quiet fails the test if there is an unread message.
func (p *Probe) Quiet() {
	p.env.t.Helper()
	require.Empty(p.env.t, p.Unread())
}

// Expect removes and returns the first unread message of type M, and waits for one if there
// is none. Messages of other types stay.
func Expect[M any](p *Probe) M {
	p.env.t.Helper()
	m, _ := ExpectFrom[M](p)
	return m
}

// ExpectFrom is Expect with the sender of the message.
func ExpectFrom[M any](p *Probe) (M, *actor.PID) {
	p.env.t.Helper()
	timeout := time.After(ExpectTimeout)
	for {
		if l, ok := take[M](p); ok {
			return l.Message.(M), l.Sender
		}
		select {
		case <-p.arrived:
		case <-timeout:
			require.FailNow(p.env.t, "a message has not come", "%s waits for %T and has %s", p.PID.Id, *new(M), typesOf(p))
		}
	}
}

func take[M any](p *Probe) (Envelope, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.unread, func(l Envelope) bool { _, ok := l.Message.(M); return ok })
	if i < 0 {
		return Envelope{}, false
	}
	l := p.unread[i]
	p.unread = slices.Delete(p.unread, i, i+1)
	return l, true
}

func typesOf(p *Probe) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var types []string
	for _, l := range p.unread {
		types = append(types, fmt.Sprintf("%T", l.Message))
	}
	return types
}

// Each runs a subtest for each entry of a table, each with its own Env.
func Each[T any](t *testing.T, table map[string]T, f func(*testing.T, *Env, T)) {
	names := make([]string, 0, len(table))
	for name := range table {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			Run(t, func(t *testing.T, e *Env) { f(t, e, table[name]) })
		})
	}
}
