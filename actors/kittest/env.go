package kittest

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kit"
)

// The library's maps have 32 shards each, and an actor system has 1024 maps, which would be
// most of a test's cost.
var _ = oneShard()

func oneShard() int {
	cmap.SHARD_COUNT = 1
	return cmap.SHARD_COUNT
}

// Backoff is the restart delay of actors started with [Env.Start].
const Backoff = time.Second

// Env is an actor system for a test.
type Env struct {
	*kit.Env
	Clock  *Clock
	Logs   *logrustest.Hook
	Panics *PanicInjector
	t      testing.TB
	log    *logrus.Logger
}

// Run runs a test in a bubble: [Env.Settle] waits until no actor has anything left to do,
// and a test that waits for ever fails at once. A message that its receiver does not know,
// and a panic of a stopping actor, fail the test.
func Run(t *testing.T, f func(*testing.T, *Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := New(t)
		f(t, e)
		e.Settle()
		require.Empty(t, e.Logged("actor received a message that it does not handle; the message is dropped"))
		require.Empty(t, e.Logged("actor panicked while stopping"))
	})
}

// New makes an actor system with a captured log and a clock that stands still.
func New(t testing.TB) *Env {
	log, hook := logrustest.NewNullLogger()
	log.SetOutput(io.Discard)
	log.SetLevel(logrus.TraceLevel)
	e := &Env{Clock: NewClock(), Logs: hook, Panics: &PanicInjector{}, t: t, log: log}
	e.boot()
	return e
}

// Reboot makes another actor system with the same clock, log and injector. All actors of
// the former one must have stopped.
func (e *Env) Reboot() *Env {
	next := *e
	next.boot()
	return &next
}

func (e *Env) boot() {
	e.Env = kit.New(kit.Options{Log: e.log, Clock: e.Clock, Mailbox: e.Panics.mailbox})
}

// Settle waits until no actor has anything left to do before the clock is advanced or a
// blocked disk call released.
func (e *Env) Settle() { synctest.Wait() }

// Advance advances the clock by d and waits for all consequences.
func (e *Env) Advance(d time.Duration) {
	e.Settle()
	e.Clock.Advance(d)
	e.Settle()
}

// Logged returns the fields of the log entries with this message, one map for each entry.
func (e *Env) Logged(text string) []logrus.Fields {
	var found []logrus.Fields
	for _, entry := range e.Logs.AllEntries() {
		if entry.Message == text {
			found = append(found, entry.Data)
		}
	}
	return found
}

// Send sends a message without a sender.
func (e *Env) Send(to *actor.PID, msg any) { e.System().Root.Send(to, msg) }

// Start spawns an actor below a parent that restarts it after Backoff, without limit.
func (e *Env) Start(name string, props *actor.Props) *actor.PID {
	e.t.Helper()
	parent := e.Props("parent", func() actor.Actor { return &parent{name: name, props: props} },
		kit.Supervise(e.Strategy(kit.Policy{Backoff: Backoff, Limit: 1000})))
	_, _, err := e.SpawnRoot(parent, "above-"+name)
	require.NoError(e.t, err)
	e.Settle()
	return e.PID("above-" + name + "/" + name)
}

type parent struct {
	name  string
	props *actor.Props
}

func (p *parent) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.Started); ok {
		if _, err := ctx.SpawnNamed(p.props, p.name); err != nil {
			panic(err)
		}
	}
}

// Crash makes an actor panic after the messages in its mailbox. Its supervisor decides what
// follows.
func (e *Env) Crash(pid *actor.PID) {
	e.Send(pid, InjectedPanic{})
	e.Settle()
}

// Restart makes an actor of Start panic and waits for its restart.
func (e *Env) Restart(pid *actor.PID) {
	e.Crash(pid)
	e.Advance(Backoff)
}
