package kittest

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// InjectedPanic makes whoever gets it panic.
type InjectedPanic struct{}

// When is the moment of a panic.
type When string

const (
	// Before the message is looked at: it is lost, and nothing has come of it.
	Before When = "before"
	// After it was handled: all that it led to has been sent.
	After When = "after"
)

// DeliveryKind is a kind of delivery: to whom, and of what.
type DeliveryKind struct {
	Actor   string // its name, without the numbers of jobs, connections and incarnations
	Message string // type
}

func (p DeliveryKind) String() string { return p.Actor + " " + p.Message }

// PanicInjector stand between the mailboxes of an Env and its actors. They count what
// is delivered, tell a test of it, and let one delivery of the test's choice end
// in a panic.
type PanicInjector struct {
	mu        sync.Mutex
	counts    map[DeliveryKind]int
	scheduled *scheduledPanic
	watch     func(actor string, message any)
}

type scheduledPanic struct {
	at    DeliveryKind
	nth   int
	when  When
	fired bool
}

// Arm lets the nth delivery from now on at that place panic, once.
func (b *PanicInjector) Arm(at DeliveryKind, nth int, when When) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts = nil
	b.scheduled = &scheduledPanic{at: at, nth: nth, when: when}
}

// Fired reports whether what was armed has happened.
func (b *PanicInjector) Fired() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scheduled != nil && b.scheduled.fired
}

// Delivered is how often anything was delivered where.
func (b *PanicInjector) Delivered() map[DeliveryKind]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := make(map[DeliveryKind]int, len(b.counts))
	for kind, n := range b.counts {
		counts[kind] = n
	}
	return counts
}

// Watch has f told of every delivery of whatever kind, with the full name of the
// actor, before it is handled, on the actor's goroutine.
func (b *PanicInjector) Watch(f func(actor string, message any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = f
}

var numbers = regexp.MustCompile(`-[0-9]+(\.[0-9]+)?`)

// delivered counts a delivery and says when it is to panic, "" for never. kind is
// name without its numbers.
func (b *PanicInjector) delivered(name, kind string, msg any) When {
	msg = actor.UnwrapEnvelopeMessage(msg)
	b.mu.Lock()
	watch := b.watch
	when := b.count(DeliveryKind{kind, fmt.Sprintf("%T", msg)})
	b.mu.Unlock()
	if watch != nil {
		watch(name, msg)
	}
	if _, ok := msg.(InjectedPanic); ok {
		return Before
	}
	return when
}

func (b *PanicInjector) count(at DeliveryKind) When {
	if b.counts == nil {
		b.counts = map[DeliveryKind]int{}
	}
	b.counts[at]++
	if a := b.scheduled; a != nil && !a.fired && a.at == at && a.nth == b.counts[at] {
		a.fired = true
		return a.when
	}
	return ""
}

func (b *PanicInjector) mailbox() actor.Mailbox {
	return &mailbox{Mailbox: actor.Unbounded()(), panics: b}
}

type mailbox struct {
	actor.Mailbox
	panics *PanicInjector
	owner  string
}

// Belongs is part of kit.NamedMailbox.
func (m *mailbox) Belongs(actor string) { m.owner = actor }

func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&panicInvoker{MessageInvoker: invoker, panics: m.panics, name: m.owner,
		kind: numbers.ReplaceAllString(m.owner, "")}, dispatcher)
}

// panicInvoker is used by its mailbox alone, one delivery at a time.
type panicInvoker struct {
	actor.MessageInvoker
	panics   *PanicInjector
	name     string
	kind     string
	stopping bool // what comes now is not handled as usual, nor counted
}

func (d *panicInvoker) InvokeUserMessage(msg any) {
	d.deliver(msg, d.MessageInvoker.InvokeUserMessage)
}

func (d *panicInvoker) InvokeSystemMessage(msg any) {
	d.deliver(msg, d.MessageInvoker.InvokeSystemMessage)
}

func (d *panicInvoker) deliver(msg any, invoke func(any)) {
	when := When("")
	if !d.stopping {
		when = d.panics.delivered(d.name, d.kind, msg)
	}
	if _, ok := msg.(*actor.Stop); ok {
		d.stopping = true
	}
	if when == Before {
		panic("a bomb went off before the message was handled")
	}
	invoke(msg)
	if when == After {
		panic("a bomb went off after the message was handled")
	}
}
