package kit

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
)

// guarded is one instance of an actor, as the library sees it. It is used on the actor's
// goroutine only.
//
// It wraps the actor. Receiver middleware would cost an envelope per message and does not
// know the instance.
type guarded struct {
	inner actor.Actor
	env   *Env
	kind  string

	// stopping: the instance has got Stopping or Restarting, and its children were told to
	// stop. The library would wait for ever for a child spawned later.
	stopping bool

	// failing has the failures of this instance's children. Children end with the instance,
	// and so does failing.
	failing map[*actor.PID]*failures
}

func (g *guarded) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Stopping, *actor.Restarting:
		g.stopping = true
	case *actor.Terminated:
		g.forget(msg.Who, c.Children())
	}
	if g.stopping {
		g.receiveStopping(c)
		return
	}
	g.inner.Receive(c)
}

// receiveStopping swallows panics, which would confuse the library: a panic in Stopping
// restarts the actor, a panic in Stopped keeps parent and watchers from getting Terminated,
// a panic in Terminated loses the end of the last child.
func (g *guarded) receiveStopping(c actor.Context) {
	defer func() {
		if reason := recover(); reason != nil {
			g.env.logPanic(c.Self(), g.kind, c.Message(), reason, "actor panicked while stopping")
		}
	}()
	g.inner.Receive(c)
}

// forget drops the failures of a stopped child, and those of the group when its last child
// has stopped.
func (g *guarded) forget(child *actor.PID, remaining []*actor.PID) {
	delete(g.failing, child)
	if len(remaining) == 0 {
		delete(g.failing, group)
	}
}

// gate stands between a mailbox and its actor, over all instances. The mailbox calls it
// from one goroutine at a time.
type gate struct {
	actor.MessageInvoker
	ctx     actor.Context
	mailbox *trackedMailbox

	stopping bool // the actor was handed Stop
	stopped  bool // the actor has stopped
}

func (g *gate) InvokeUserMessage(msg any) {
	if g.stopped {
		// The library would drop the message silently.
		g.mailbox.env.sys.DeadLetter.SendUserMessage(g.ctx.Self(), msg)
		return
	}
	begin := g.mailbox.env.clock.Now()
	g.MessageInvoker.InvokeUserMessage(msg)
	g.mailbox.busy.add(g.mailbox.env.clock.Now().Sub(begin))
}

func (g *gate) InvokeSystemMessage(msg any) {
	switch msg.(type) {
	case *actor.Stop:
		g.stopping = true
	case *actor.Restart:
		if g.stopping {
			// The library would restart the stopped actor: under its name while its
			// children stop, later without a name.
			return
		}
	}
	g.MessageInvoker.InvokeSystemMessage(msg)
	// A stopping actor has stopped once it has no children.
	if g.stopping && !g.stopped && len(g.ctx.Children()) == 0 {
		g.finish()
	}
}

func (g *gate) finish() {
	g.stopped = true
	g.mailbox.env.mailboxes.Delete(g.ctx.Self())
	// A failed actor is suspended. Resuming lets its queue drain into dead letters.
	g.mailbox.Mailbox.PostSystemMessage(&actor.ResumeMailbox{})
}

// EscalateFailure is called by the mailbox during the panic, so that the stack shows its
// origin.
func (g *gate) EscalateFailure(reason, msg any) {
	g.mailbox.env.logPanic(g.ctx.Self(), g.mailbox.kind, msg, reason, "actor panicked")
	g.MessageInvoker.EscalateFailure(reason, msg)
}

// logPanic logs the type of the message, never its content: opcodes may have passwords.
func (e *Env) logPanic(self *actor.PID, kind string, msg, reason any, text string) {
	e.log.WithFields(logrus.Fields{
		"actor": self.GetId(),
		"kind":  kind,
		"op":    typeName(msg),
		"err":   reasonText(reason),
		"stack": string(debug.Stack()),
	}).WithTime(e.clock.Now()).Error(text)
}

// typeName is the type of a message, without the envelope it may be in.
func typeName(msg any) string { return fmt.Sprintf("%T", actor.UnwrapEnvelopeMessage(msg)) }

// reasonText is the text of a panic value that is an error or a string, and the type of any
// other value, which may be a message. It must not panic, because no caller recovers.
func reasonText(reason any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", reason)
		}
	}()
	switch reason := reason.(type) {
	case error:
		return reason.Error()
	case string:
		return reason
	default:
		return fmt.Sprintf("%T", reason)
	}
}
