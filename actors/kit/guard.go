package kit

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
)

// guarded is one instance of an actor, as the library sees it. It is used on the
// actor's goroutine only.
//
// It wraps the actor instead of being receiver middleware, for middleware costs
// an envelope per message and does not know the instance.
type guarded struct {
	inner actor.Actor
	env   *Env
	kind  string

	// stopping: the instance was told Stopping or Restarting. Its children have
	// been told to stop then; one spawned later would be waited for in vain.
	stopping bool

	// failing holds what this instance, as a supervisor, knows of children that
	// failed. It ends with the instance, whose children end then too.
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

// receiveStopping swallows panics. One that came through would keep the library
// from going on: in Stopping it would have the actor restarted, in Stopped keep
// its parent and watchers from being told, in Terminated lose the moment in which
// the last child has gone. And there is nothing left to supervise.
func (g *guarded) receiveStopping(c actor.Context) {
	defer func() {
		if reason := recover(); reason != nil {
			g.env.logPanic(c.Self(), g.kind, c.Message(), reason, "actor panicked while stopping")
		}
	}()
	g.inner.Receive(c)
}

// forget drops what is known of a child that has gone, and of the group of all
// children when the last one has.
func (g *guarded) forget(child *actor.PID, remaining []*actor.PID) {
	delete(g.failing, child)
	if len(remaining) == 0 {
		delete(g.failing, group)
	}
}

// gate stands between a mailbox and its actor, whatever instance that has; the
// mailbox calls it from one goroutine at a time.
type gate struct {
	actor.MessageInvoker
	ctx     actor.Context
	mailbox *trackedMailbox

	stopping bool // a Stop has been handed to the actor
	stopped  bool // and it has come to its end
}

func (g *gate) InvokeUserMessage(msg any) {
	if g.stopped {
		// The library would discard it in silence.
		g.mailbox.env.sys.DeadLetter.SendUserMessage(g.ctx.Self(), msg)
		return
	}
	g.MessageInvoker.InvokeUserMessage(msg)
}

func (g *gate) InvokeSystemMessage(msg any) {
	switch msg.(type) {
	case *actor.Stop:
		g.stopping = true
	case *actor.Restart:
		if g.stopping {
			// The library would bring the actor back: as itself while its children
			// stop, as a ghost without a name when it has stopped.
			return
		}
	}
	g.MessageInvoker.InvokeSystemMessage(msg)
	// An actor told to stop has done so as soon as it has no children left.
	if g.stopping && !g.stopped && len(g.ctx.Children()) == 0 {
		g.finish()
	}
}

func (g *gate) finish() {
	g.stopped = true
	g.mailbox.env.mailboxes.Delete(g.ctx.Self())
	// An actor that stopped because it failed is suspended: let its queue drain.
	g.mailbox.Mailbox.PostSystemMessage(&actor.ResumeMailbox{})
}

// EscalateFailure is called by the mailbox while the panic unwinds, so the stack
// still shows where it came from.
func (g *gate) EscalateFailure(reason, msg any) {
	g.mailbox.env.logPanic(g.ctx.Self(), g.mailbox.kind, msg, reason, "actor panicked")
	g.MessageInvoker.EscalateFailure(reason, msg)
}

// logPanic names the message's type, never its content: opcodes may hold
// passwords.
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

// reasonText is what a panic value says about itself if it is an error or a
// string; of others, which may be messages, it is only the type. It must not
// panic: it runs where nothing recovers any more.
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
