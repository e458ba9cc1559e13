package kit

import (
	"cmp"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"github.com/sirupsen/logrus"
)

// Options are the ports of an actor system. The zero value works.
type Options struct {
	Log   *logrus.Logger // nil: nothing is logged
	Clock Clock          // nil: RealClock

	// Mailbox makes the queues of all actors; nil: actor.Unbounded(). They are wrapped in
	// a safeMailbox.
	Mailbox actor.MailboxProducer

	// Rand is the jitter of restart delays, uniform over all of uint64. It is called by
	// several goroutines. nil: no jitter.
	Rand func() uint64
}

// Env is one actor system with what is needed to spawn actors in it.
type Env struct {
	sys     *actor.ActorSystem
	log     *logrus.Logger
	clock   Clock
	rand    func() uint64
	mailbox actor.MailboxProducer

	root         *actor.RootContext // spawns with the guardian
	mailboxes    sync.Map           // *actor.PID to *trackedMailbox, for all live actors
	incarnations sync.Map           // kind to *atomic.Uint64, see NumberedProps
	busiest      sync.Map           // kind to *busyTime
	deadLetters  atomic.Uint64
}

// New makes an actor system. It has no goroutine while its actors are idle, and needs no
// shutdown.
func New(o Options) *Env {
	e := &Env{log: o.Log, clock: o.Clock, rand: o.Rand, mailbox: o.Mailbox}
	if e.log == nil {
		e.log = logrus.New()
		e.log.SetOutput(io.Discard)
	}
	if e.clock == nil {
		e.clock = RealClock()
	}
	if e.mailbox == nil {
		e.mailbox = actor.Unbounded()
	}
	e.sys = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(&slogHandler{log: e.log}).With("lib", "protoactor")
	}))
	// The library's own subscribers log the content of dead letters and start a goroutine
	// with a real timer. A new stream drops them; observe does the rest of their work.
	e.sys.EventStream = eventstream.NewEventStream()
	e.sys.EventStream.Subscribe(e.observe)
	// A guardian may only stop its children: any other directive ends the process.
	e.root = e.sys.Root.Copy().WithGuardian(e.Strategy(Policy{}))
	return e
}

// System is the actor system, for sending, asking and subscribing. A subscriber of its
// EventStream runs on the publisher's goroutine, must be quick, and must not panic.
func (e *Env) System() *actor.ActorSystem { return e.sys }

// Clock is the clock of this system's actors.
func (e *Env) Clock() Clock { return e.clock }

// Log is the log of this system's actors.
func (e *Env) Log() *logrus.Logger { return e.log }

// PID is the address of the actor with that name, "daemon/core/store", which may not exist
// yet. A message to an actor that does not exist is a dead letter.
func (e *Env) PID(path string) *actor.PID { return e.sys.NewLocalPID(path) }

// DeadLetters is the number of user messages so far that reached no actor.
func (e *Env) DeadLetters() uint64 { return e.deadLetters.Load() }

// busyOf is the time that actors of a kind have spent with messages. It is made at the first call.
func (e *Env) busyOf(kind string) *busyTime {
	if known, ok := e.busiest.Load(kind); ok {
		return known.(*busyTime)
	}
	known, _ := e.busiest.LoadOrStore(kind, &busyTime{})
	return known.(*busyTime)
}

// Mailboxes has the queue of each live actor, by name.
func (e *Env) Mailboxes() []MailboxStat {
	var stats []MailboxStat
	e.mailboxes.Range(func(pid, b any) bool {
		stats = append(stats, MailboxStat{
			Actor:  pid.(*actor.PID).GetId(),
			Kind:   b.(*trackedMailbox).kind,
			Queued: b.(*trackedMailbox).UserMessageCount(),
			Busy:   b.(*trackedMailbox).busy.longest(),
		})
		return true
	})
	slices.SortFunc(stats, func(a, b MailboxStat) int { return cmp.Compare(a.Actor, b.Actor) })
	return stats
}
