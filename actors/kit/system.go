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

// Options say how an actor system meets the world. The zero value works.
type Options struct {
	Log   *logrus.Logger // nil: nothing is logged
	Clock Clock          // nil: RealClock

	// Mailbox makes the queues of all actors; nil: actor.Unbounded(). They are
	// made safe as SafeMailbox does.
	Mailbox actor.MailboxProducer

	// Rand spreads the delays of restarts, uniformly over all of uint64. Several
	// goroutines may call it. nil: the delays are not spread.
	Rand func() uint64
}

// Env is one actor system with what its actors need to be spawned.
type Env struct {
	sys     *actor.ActorSystem
	log     *logrus.Logger
	clock   Clock
	rand    func() uint64
	mailbox actor.MailboxProducer

	root        *actor.RootContext // spawns under the guardian
	mailboxes   sync.Map           // *actor.PID to *trackedMailbox, of the actors that live
	deadLetters atomic.Uint64
}

// New makes an actor system. It owns no goroutine while its actors are idle and
// needs no shutdown: it is gone when it is dropped.
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
	// The library's own subscribers log the content of dead letters, and start a
	// goroutine with a real timer to do so. A stream of our own leaves them behind;
	// observe does the rest of their work.
	e.sys.EventStream = eventstream.NewEventStream()
	e.sys.EventStream.Subscribe(e.observe)
	// A guardian can do nothing but stop, or the process dies.
	e.root = e.sys.Root.Copy().WithGuardian(e.Strategy(Policy{}))
	return e
}

// System is the actor system, for sending, asking and subscribing. What
// subscribes to its EventStream runs on the goroutine of whoever publishes, must
// be quick, and must not panic.
func (e *Env) System() *actor.ActorSystem { return e.sys }

// Clock is the time of this system's actors.
func (e *Env) Clock() Clock { return e.clock }

// Log is where this system's actors log to.
func (e *Env) Log() *logrus.Logger { return e.log }

// PID addresses an actor by its name, "daemon/core/store", whether it exists yet
// or not; what is sent before it does is a dead letter.
func (e *Env) PID(path string) *actor.PID { return e.sys.NewLocalPID(path) }

// DeadLetters is the number of user messages so far that found no actor.
func (e *Env) DeadLetters() uint64 { return e.deadLetters.Load() }

// Mailboxes are the queues of the actors that live, ordered by name.
func (e *Env) Mailboxes() []MailboxStat {
	var stats []MailboxStat
	e.mailboxes.Range(func(pid, b any) bool {
		stats = append(stats, MailboxStat{
			Actor:  pid.(*actor.PID).GetId(),
			Kind:   b.(*trackedMailbox).kind,
			Queued: b.(*trackedMailbox).UserMessageCount(),
		})
		return true
	})
	slices.SortFunc(stats, func(a, b MailboxStat) int { return cmp.Compare(a.Actor, b.Actor) })
	return stats
}
