package kittest

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// InjectedPanic is a message that makes its receiver panic, as a bug in the handling of any message would.
type InjectedPanic struct{}

// When is the time of a panic within a delivery.
type When string

const (
	// Before the message is handled: the message is lost without effect.
	Before When = "before"
	// After the message was handled: all that it leads to was sent.
	After When = "after"
)

// DeliveryKind is what deliveries are counted by: the actor and the type of the message.
type DeliveryKind struct {
	Actor   string // name without the numbers of jobs, connections and incarnations
	Message string // Go type
}

func (p DeliveryKind) String() string { return p.Actor + " " + p.Message }

// PanicInjector stands between the mailboxes of an Env and its actors. It counts
// deliveries, reports them to Watch, and makes one chosen delivery panic.
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

// Arm makes the nth delivery of that kind from now on panic, once.
func (b *PanicInjector) Arm(at DeliveryKind, nth int, when When) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts = nil
	b.scheduled = &scheduledPanic{at: at, nth: nth, when: when}
}

// Fired reports whether the armed panic has happened.
func (b *PanicInjector) Fired() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.scheduled != nil && b.scheduled.fired
}

// Delivered is the number of deliveries of each kind so far.
func (b *PanicInjector) Delivered() map[DeliveryKind]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := make(map[DeliveryKind]int, len(b.counts))
	for kind, n := range b.counts {
		counts[kind] = n
	}
	return counts
}

// Watch calls f before each delivery, with the full name of the actor, on the actor's
// goroutine.
func (b *PanicInjector) Watch(f func(actor string, message any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watch = f
}

var numbers = regexp.MustCompile(`-[0-9]+(\.[0-9]+)?`)

// delivered counts a delivery and returns when it must panic, "" for never. kind is name
// without its numbers.
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

// Belongs implements kit.NamedMailbox.
func (m *mailbox) Belongs(actor string) { m.owner = actor }

func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&panicInvoker{MessageInvoker: invoker, panics: m.panics, name: m.owner,
		kind: numbers.ReplaceAllString(m.owner, "")}, dispatcher)
}

// panicInvoker is used by its mailbox only, one delivery at a time.
type panicInvoker struct {
	actor.MessageInvoker
	panics   *PanicInjector
	name     string
	kind     string
	stopping bool // Stop was delivered; later deliveries are not counted and do not panic
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
		panic("injected panic before the message was handled")
	}
	invoke(msg)
	if when == After {
		panic("injected panic after the message was handled")
	}
}
