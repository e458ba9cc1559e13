package kit

import (
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

// SafeMailbox makes mailboxes of p's kind that may be sent to before the actor
// behind them is ready.
//
// The library publishes an actor's name before its mailbox knows the actor and
// its dispatcher; without this, a message sent by name in between panics in the
// sender and leaves the target deaf for good.
//
// p's mailboxes must only queue and schedule in Post and Start, never run the
// actor there.
func SafeMailbox(p actor.MailboxProducer) actor.MailboxProducer {
	return func() actor.Mailbox { return &safeMailbox{Mailbox: p()} }
}

// safeMailbox keeps what comes before Start, in order, Started first.
//
// Invariant: open is set, under mu, once early has been delivered, and never
// cleared; so the messages of one sender stay in order.
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

// buffer reports whether it kept the message for Start to deliver.
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

// Start is called once, when the mailbox knows its actor.
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

// trackedMailbox is the mailbox of an actor spawned through Props: a safe one that tells
// its Env about itself and has a gate before the actor.
type trackedMailbox struct {
	safeMailbox
	env  *Env
	kind string
}

func (b *trackedMailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	// Only the library's actor context registers itself, and it is a Context.
	ctx := invoker.(actor.Context)
	b.env.mailboxes.Store(ctx.Self(), b)
	if mine, is := b.Mailbox.(NamedMailbox); is {
		mine.Belongs(ctx.Self().GetId())
	}
	b.Mailbox.RegisterHandlers(&gate{MessageInvoker: invoker, ctx: ctx, mailbox: b}, dispatcher)
}

// NamedMailbox is a mailbox that wants to know whose it is. It is told before it gets its
// handlers.
type NamedMailbox interface{ Belongs(actor string) }

// MailboxStat is the length of one actor's queue.
type MailboxStat struct {
	Actor  string // the actor's name, "daemon/core/store"
	Kind   string // as given to Props
	Queued int    // user messages that wait; the one in hand is not counted
}
