package sim

import (
	"reflect"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/sim/kernel"
)

// mailboxes makes the mailboxes of one daemon's actors.
type mailboxes struct {
	kernel *kernel.Kernel
	life   *kernel.Lifetime
	// observe is called before each delivery, and returns whether the actor panics.
	observe func(actor string, message any, kind messageKind) panicWhen
	// alter, if set, replaces a message: by nothing if it returns nil, by more if it returns several.
	alter func(actor string, message any) any
	// suspended counts the actors that handle no message until their restart.
	suspended int
}

// messageKind distinguishes messages that an actor's code handles from those that only the
// library handles.
type messageKind uint8

const (
	userMessage messageKind = iota
	startedMessage
	frameworkMessage
)

// panicWhen is when an actor panics over a message.
type panicWhen uint8

const (
	noPanic     panicWhen = iota
	panicBefore           // it has done nothing yet
	panicAfter            // it has done everything, and loses its state
)

// injectedPanic is the value of injected panics.
const injectedPanic = "panic injected by the simulation"

var _ kit.NamedMailbox = (*mailbox)(nil)

func (m *mailboxes) produce() actor.Mailbox { return &mailbox{owner: m} }

// mailbox queues messages. In a step it delivers one, on the goroutine that steps the world.
type mailbox struct {
	owner        *mailboxes
	name         string // of its actor
	invoker      actor.MessageInvoker
	system, user []any
	suspended    bool
	armed        bool
}

func (b *mailbox) PostUserMessage(m any)   { b.user = append(b.user, m); b.arm() }
func (b *mailbox) PostSystemMessage(m any) { b.system = append(b.system, m); b.arm() }
func (b *mailbox) Start()                  { b.arm() }

func (b *mailbox) UserMessageCount() int { return len(b.user) }

// Belongs names the actor that owns the mailbox.
func (b *mailbox) Belongs(actor string) { b.name = actor }

func (b *mailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	b.invoker = invoker
}

func (b *mailbox) arm() {
	if b.invoker != nil && !b.armed && (len(b.system) > 0 || !b.suspended && len(b.user) > 0) {
		b.armed = true
		b.owner.kernel.Add(b)
	}
}

func (b *mailbox) Run() {
	if b.owner.life.Defers(b) {
		return
	}
	b.armed = false
	if b.owner.life.Over {
		b.system, b.user = nil, nil
		return
	}
	b.deliver()
	b.arm()
}

// deliver delivers one message, as the library's own mailbox would: system messages first,
// panics to the supervisor.
func (b *mailbox) deliver() {
	var m any
	defer func() {
		if reason := recover(); reason != nil {
			b.invoker.EscalateFailure(reason, m)
		}
	}()
	if len(b.system) > 0 {
		m, b.system = b.system[0], b.system[1:]
		b.deliverSystem(m)
		return
	}
	if b.suspended || len(b.user) == 0 {
		return // suspended since it was added
	}
	m, b.user = b.user[0], b.user[1:]
	for _, m = range b.altered(m) {
		b.deliverUser(m)
	}
}

func (b *mailbox) deliverUser(m any) {
	when := b.owner.observe(b.name, actor.UnwrapEnvelopeMessage(m), userMessage)
	if when == panicBefore {
		panic(injectedPanic)
	}
	b.invoker.InvokeUserMessage(m)
	if when == panicAfter {
		panic(injectedPanic)
	}
}

func (b *mailbox) deliverSystem(m any) {
	kind := frameworkMessage
	if _, started := m.(*actor.Started); started {
		kind = startedMessage
	}
	when := b.owner.observe(b.name, m, kind)
	switch m.(type) {
	case *actor.SuspendMailbox:
		b.suspend(true)
	case *actor.ResumeMailbox:
		b.suspend(false)
	case *actor.Stop:
		b.suspend(false) // the actor will not be restarted
		b.invoker.InvokeSystemMessage(m)
	default:
		b.invoker.InvokeSystemMessage(m)
	}
	if when == panicAfter && kind == startedMessage {
		panic(injectedPanic)
	}
}

func (b *mailbox) suspend(now bool) {
	if b.suspended != now {
		b.suspended = now
		if now {
			b.owner.suspended++
		} else {
			b.owner.suspended--
		}
	}
}

// several are messages in place of one, see Mutations.Alter.
type several []any

// altered returns the messages that a mutation delivers in place of a message: none, another one or several.
func (b *mailbox) altered(m any) several {
	if b.owner.alter == nil {
		return several{m}
	}
	was := actor.UnwrapEnvelopeMessage(m)
	is := b.owner.alter(b.name, was)
	all, isSeveral := is.(several)
	switch {
	case is == nil:
		return nil
	case !isSeveral && is == was:
		return several{m}
	case !isSeveral:
		all = several{is}
	}
	for i, one := range all {
		all[i] = &actor.MessageEnvelope{Message: one, Sender: actor.UnwrapEnvelopeSender(m)}
	}
	return all
}

func messageName(m any) string { return reflect.TypeOf(m).String() }
