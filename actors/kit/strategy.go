package kit

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Strategy carries out p for the children of any number of supervisors. It panics if p is
// invalid.
//
// Delays are those of the Env's clock. After a delay the supervisor gets a message and
// restarts the child in its own turn, if it is still the same instance and still has that
// child.
func (e *Env) Strategy(p Policy) actor.SupervisorStrategy {
	if err := p.Validate(); err != nil {
		panic(err)
	}
	return &strategy{env: e, policy: p}
}

// strategy has no state: the failures are in the supervisor's instance.
type strategy struct {
	env    *Env
	policy Policy
}

// supervisor is a supervising actor. The guardian is not one.
type supervisor interface {
	actor.Supervisor
	Self() *actor.PID
	Actor() actor.Actor
}

// group is the key for all children of a supervisor in guarded.failing.
var group *actor.PID

// restartDue stands in the reason field of the message that tells a supervisor of a due
// restart.
type restartDue struct{ failures *failures }

// HandleFailure decides by the policy what happens to a child that has crashed: a restart after a delay, a stop, or an escalation. It
// runs on the supervisor's goroutine, or on the child's if the supervisor is the guardian.
func (s *strategy) HandleFailure(
	_ *actor.ActorSystem, by actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any,
) {
	sup, host := hostOf(by)
	if host == nil {
		// The guardian cannot get a message about a due restart.
		s.publish(child, reason, step{directive: Stop, attempt: 1})
		by.StopChildren(child)
		return
	}
	if due, ok := reason.(*restartDue); ok {
		s.restart(sup, host, child, due)
		return
	}
	if host.stopping {
		s.publish(child, reason, step{directive: Ignore})
		return // all children were told to stop
	}
	known := host.failuresOf(s.key(child), s.policy)
	next := known.next(s.env.clock.Now())
	if s.env.rand != nil && next.directive == Restart {
		next.delay = jitter(next.delay, s.env.rand())
	}
	s.publish(child, reason, next)
	switch next.directive {
	case Restart:
		s.schedule(sup, child, known, next)
	case Stop:
		sup.StopChildren(s.affected(sup, child)...)
	case Escalate:
		s.suspend(s.affected(sup, child)) // they stop with the supervisor's instance
		sup.EscalateFailure(reason, message)
	case Ignore:
	}
}

// hostOf is the supervisor as an actor, and its instance; nil for both if it is not one.
func hostOf(by actor.Supervisor) (supervisor, *guarded) {
	sup, ok := by.(supervisor)
	if !ok {
		return nil, nil
	}
	host, ok := sup.Actor().(*guarded)
	if !ok {
		return nil, nil
	}
	return sup, host
}

func (g *guarded) failuresOf(key *actor.PID, p Policy) *failures {
	known := g.failing[key]
	if known == nil {
		known = &failures{policy: p}
		if g.failing == nil {
			g.failing = map[*actor.PID]*failures{}
		}
		g.failing[key] = known
	}
	return known
}

// key is the key of a child's failures. The pointer is that of one incarnation: a later
// child of the same name has another PID pointer.
func (s *strategy) key(child *actor.PID) *actor.PID {
	if s.policy.Scope == AllForOne {
		return group
	}
	return child
}

func (s *strategy) affected(sup supervisor, child *actor.PID) []*actor.PID {
	if s.policy.Scope == AllForOne {
		return sup.Children()
	}
	return []*actor.PID{child}
}

func (s *strategy) schedule(sup supervisor, child *actor.PID, known *failures, next step) {
	s.suspend(s.affected(sup, child))
	self := sup.Self()
	s.env.clock.AfterFunc(next.delay, func() {
		s.env.sendSystem(self, &actor.Failure{Who: child, Reason: &restartDue{failures: known}})
	})
}

// restart restarts the children, unless they have stopped or the supervisor is another
// instance, which has not seen these failures.
func (s *strategy) restart(sup supervisor, host *guarded, child *actor.PID, due *restartDue) {
	if host.failing[s.key(child)] != due.failures {
		return
	}
	due.failures.restarted()
	children := s.affected(sup, child)
	s.suspend(children) // also children spawned after the failure
	sup.RestartChildren(children...)
}

// suspend stops the children's user messages until their restart. So an instance that will
// be replaced handles no further message, and messages within a group are handled by the
// new instances.
func (s *strategy) suspend(children []*actor.PID) {
	for _, child := range children {
		s.env.sendSystem(child, &actor.SuspendMailbox{})
	}
}

func (s *strategy) publish(child *actor.PID, reason any, next step) {
	s.env.sys.EventStream.Publish(&ChildFailed{
		Child:     child,
		Reason:    reason,
		Directive: next.directive,
		Attempt:   next.attempt,
		Delay:     next.delay,
	})
}
