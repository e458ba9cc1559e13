package kit

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// stepped delivers the messages of all its mailboxes one by one, in an order chosen by the
// seed, on the caller's goroutine.
type stepped struct {
	rng   *rand.Rand
	ready []*steppedMailbox
}

type steppedMailbox struct {
	all               *stepped
	system, user      []any
	suspended, queued bool
	invoker           actor.MessageInvoker
}

func (b *steppedMailbox) arm() {
	if b.invoker != nil && !b.queued && (len(b.system) > 0 || !b.suspended && len(b.user) > 0) {
		b.queued, b.all.ready = true, append(b.all.ready, b)
	}
}

func (b *steppedMailbox) PostUserMessage(m any)   { b.user = append(b.user, m); b.arm() }
func (b *steppedMailbox) PostSystemMessage(m any) { b.system = append(b.system, m); b.arm() }
func (b *steppedMailbox) Start()                  { b.arm() }
func (b *steppedMailbox) UserMessageCount() int   { return len(b.user) }

func (b *steppedMailbox) RegisterHandlers(i actor.MessageInvoker, _ actor.Dispatcher) { b.invoker = i }

func (s *stepped) step() bool {
	if len(s.ready) == 0 {
		return false
	}
	i := s.rng.Intn(len(s.ready))
	b := s.ready[i]
	s.ready[i] = s.ready[len(s.ready)-1]
	s.ready, b.queued = s.ready[:len(s.ready)-1], false
	b.deliver()
	b.arm()
	return true
}

func (s *stepped) drain() {
	more := true
	for more {
		more = s.step()
	}
}

func (b *steppedMailbox) deliver() {
	var m any
	defer func() {
		if reason := recover(); reason != nil {
			b.invoker.EscalateFailure(reason, m)
		}
	}()
	if len(b.system) > 0 {
		m, b.system = b.system[0], b.system[1:]
		switch m.(type) {
		case *actor.SuspendMailbox:
			b.suspended = true
		case *actor.ResumeMailbox:
			b.suspended = false
		default:
			b.invoker.InvokeSystemMessage(m)
		}
	} else if !b.suspended && len(b.user) > 0 {
		m, b.user = b.user[0], b.user[1:]
		b.invoker.InvokeUserMessage(m)
	}
}

// TestStepped: with a stepped mailbox everything is a function of the seed and needs no
// goroutine.
func TestStepped(t *testing.T) {
	run := func(seed int64) []string {
		s := &stepped{rng: rand.New(rand.NewSource(seed))}
		r := newRig(t, func(o *Options) {
			o.Mailbox = func() actor.Mailbox { return &steppedMailbox{all: s} }
			o.Rand = s.rng.Uint64
		})
		policy := &Policy{Scope: AllForOne, Backoff: second, Limit: 2, OnGiveUp: Escalate}
		_, done := r.root(spec{name: "daemon", policy: &Policy{Limit: 1, Backoff: second}, children: []spec{
			{name: "core", policy: policy, children: []spec{{name: "a"}, {name: "b", children: []spec{{name: "c"}}}}},
		}})
		for range 10 {
			s.drain()
			r.send("daemon/core/a", "1", "boom", "2")
			r.send("daemon/core/b", "3", "boom", "4")
			s.drain()
			r.clock.advance(second)
		}
		r.env.System().Root.Stop(r.env.PID("daemon"))
		s.drain()
		require.True(t, isClosed(done))
		require.Empty(t, r.env.Mailboxes())
		return append(r.of(), r.failures()...)
	}
	schedules := map[string]bool{}
	for seed := range int64(20) {
		trace := run(seed)
		require.Equal(t, trace, run(seed))
		schedules[strings.Join(trace, "\n")] = true
	}
	require.Greater(t, len(schedules), 10)
}
