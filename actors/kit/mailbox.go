package kit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// safeMailbox is a mailbox that accepts messages before its actor is ready. It keeps the
// messages that come before Start, Started first, the others in order.
//
// The library publishes an actor's name before its mailbox knows the actor and its
// dispatcher. Without this, a message sent by name in between panics in the sender, and the
// target handles no message ever.
//
// The wrapped mailbox must only queue and schedule in Post and Start, and never run the
// actor there.
//
// Invariant: open is set under mu after early was delivered, and never cleared. So the
// messages of one sender stay in order.
type safeMailbox struct {
	actor.Mailbox
	started  atomic.Bool
	mu       sync.Mutex
	buffered []post
}

type post struct {
	deliver func(any)
	msg     any
}

func (m *safeMailbox) PostUserMessage(msg any) {
	if m.started.Load() || !m.buffer(msg, m.Mailbox.PostUserMessage) {
		m.Mailbox.PostUserMessage(msg)
	}
}

func (m *safeMailbox) PostSystemMessage(msg any) {
	if m.started.Load() || !m.buffer(msg, m.Mailbox.PostSystemMessage) {
		m.Mailbox.PostSystemMessage(msg)
	}
}

// buffer keeps a message for Start, or reports false if Start was called before.
func (m *safeMailbox) buffer(msg any, deliver func(any)) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.started.Load() {
		return false
	}
	p := post{deliver: deliver, msg: msg}
	if _, ok := msg.(*actor.Started); ok {
		m.buffered = append([]post{p}, m.buffered...)
	} else {
		m.buffered = append(m.buffered, p)
	}
	return true
}

// Start begins the delivery. It hands over the messages that were posted before the mailbox knew its actor, in their order but Started
// first. protoactor calls it once.
func (m *safeMailbox) Start() {
	m.Mailbox.Start()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.buffered {
		p.deliver(p.msg)
	}
	m.buffered = nil
	m.started.Store(true)
}

// trackedMailbox is the mailbox of an actor spawned through Props: a safe mailbox that
// registers with its Env and has a gate.
type trackedMailbox struct {
	safeMailbox
	env  *Env
	kind string
	busy *busyTime
}

// busyTime is the longest time that one message has taken, of all actors of a kind.
type busyTime struct{ most atomic.Int64 } // nanoseconds

func (b *busyTime) add(took time.Duration) {
	for most := b.most.Load(); int64(took) > most && !b.most.CompareAndSwap(most, int64(took)); most = b.most.Load() {
	}
}

func (b *busyTime) longest() time.Duration { return time.Duration(b.most.Load()) }

func (b *trackedMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	// The library registers only its actor context, which is a Context.
	ctx := invoker.(actor.Context)
	b.env.mailboxes.Store(ctx.Self(), b)
	if mine, is := b.Mailbox.(NamedMailbox); is {
		mine.Belongs(ctx.Self().GetId())
	}
	b.Mailbox.RegisterHandlers(&gate{MessageInvoker: invoker, ctx: ctx, mailbox: b}, dispatcher)
}

// NamedMailbox is a mailbox that is told the name of its actor before it gets handlers, so that it can report under that name.
type NamedMailbox interface{ Belongs(actor string) }

// MailboxStat is a measurement of one actor's mailbox: its length, and how long the actor makes senders wait.
type MailboxStat struct {
	Actor  string // name, "daemon/core/store"
	Kind   string // as given to Props
	Queued int    // waiting user messages, without the one being handled
	// Busy is the longest time that an actor of this kind has taken for one user message.
	Busy time.Duration
}
