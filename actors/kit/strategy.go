package kit

import (
	"github.com/asynkron/protoactor-go/actor"
)

// Strategy performs the policy p for the children of any number of supervisors.
// It panics if p is not valid.
//
// Delays are those of the Env's clock. When one is over, nothing is done from the
// clock's goroutine: the supervisor is sent a message and acts on it, in its own
// turn, if it is still the same instance and still has the child that failed.
func (e *Env) Strategy(p Policy) actor.SupervisorStrategy {
	if err := p.Validate(); err != nil {
		panic(err)
	}
	return &strategy{env: e, policy: p}
}

// strategy keeps no state of its own: that is with the supervisor's instance.
type strategy struct {
	env    *Env
	policy Policy
}

// supervisor is an actor that supervises; the guardian is none.
type supervisor interface {
	actor.Supervisor
	Self() *actor.PID
	Actor() actor.Actor
}

// group stands for all children of a supervisor in guarded.failing.
var group *actor.PID

// restartDue takes the place of a reason in the message that reminds a supervisor
// of a restart.
type restartDue struct{ failures *failures }

// HandleFailure is called on the supervisor's goroutine; on that of the child, if
// the supervisor is the guardian.
func (s *strategy) HandleFailure(
	_ *actor.ActorSystem, by actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, message any,
) {
	sup, host := hostOf(by)
	if host == nil {
		// There is nobody to remind of a restart.
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
		return // all children have been told to stop
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
		s.suspend(s.affected(sup, child)) // they end with the supervisor's instance
		sup.EscalateFailure(reason, message)
	case Ignore:
	}
}

// hostOf is the supervisor as an actor with its instance, or nils.
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

// key is by which failures of child are counted. A child's own PID, the pointer,
// is that of one incarnation: another child of the same name has another one.
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

// restart does what schedule announced, unless the children have gone since or
// the supervisor is another instance, which does not know these failures.
func (s *strategy) restart(sup supervisor, host *guarded, child *actor.PID, due *restartDue) {
	if host.failing[s.key(child)] != due.failures {
		return
	}
	due.failures.restarted()
	children := s.affected(sup, child)
	s.suspend(children) // those that were spawned since the failure
	sup.RestartChildren(children...)
}

// suspend suspends the children's user messages; their restart resumes them. So no
// message is handled by an instance that is to be replaced, and what the others
// of a group send to one another while they restart is handled by the new ones.
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
