package kit

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
)

// ChildFailed is published on the EventStream after a supervisor has decided about a child
// that panicked.
type ChildFailed struct {
	Child     *actor.PID
	Reason    any // the panic value
	Directive Directive
	Attempt   int           // failures within the policy's window, including this one
	Delay     time.Duration // before the restart
}

// observe answers and logs dead letters and logs failures. It is the only subscriber of
// this package, and runs on the publisher's goroutine.
func (e *Env) observe(event any) {
	switch event := event.(type) {
	case *actor.DeadLetterEvent:
		e.answerDeadLetter(event)
		e.logDeadLetter(event)
	case *ChildFailed:
		e.logChildFailed(event)
	}
}

// answerDeadLetter tells the sender of a dead letter that the target is gone: a requester
// gets actor.DeadLetterResponse (a future turns it into actor.ErrDeadLetter), a watcher
// gets Terminated.
func (e *Env) answerDeadLetter(letter *actor.DeadLetterEvent) {
	if letter.Sender != nil {
		e.sys.Root.Send(letter.Sender, &actor.DeadLetterResponse{Target: letter.PID})
	}
	if watch, ok := letter.Message.(*actor.Watch); ok {
		e.sendSystem(watch.Watcher, &actor.Terminated{Who: letter.PID, Why: actor.TerminatedReason_NotFound})
	}
}

func (e *Env) logDeadLetter(letter *actor.DeadLetterEvent) {
	switch letter.Message.(type) {
	case actor.SystemMessage, actor.MailboxMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse:
		return // normal when actors stop at the same time; no work is lost
	}
	e.deadLetters.Add(1)
	if e.log.IsLevelEnabled(logrus.DebugLevel) {
		e.log.WithFields(logrus.Fields{"actor": letter.PID.GetId(), "op": typeName(letter.Message)}).
			WithTime(e.clock.Now()).Debug("message to a stopped actor was dropped")
	}
}

func (e *Env) logChildFailed(failed *ChildFailed) {
	level := logrus.WarnLevel
	if failed.Directive == Stop || failed.Directive == Escalate {
		level = logrus.ErrorLevel
	}
	e.log.WithFields(logrus.Fields{
		"actor":     failed.Child.GetId(),
		"err":       reasonText(failed.Reason),
		"reason":    typeName(failed.Reason),
		"attempt":   failed.Attempt,
		"delay":     failed.Delay,
		"directive": failed.Directive,
	}).WithTime(e.clock.Now()).Log(level, "child failed")
}

// sendSystem posts a system message to the actor of pid, if it exists.
func (e *Env) sendSystem(pid *actor.PID, msg any) {
	if process, ok := e.sys.ProcessRegistry.Get(pid); ok {
		process.SendSystemMessage(pid, msg)
	}
}
