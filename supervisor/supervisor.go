package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// props makes the props of a group's supervisor. It makes the children's props once, so that
// their counters of incarnations continue when the group restarts.
func (g *group) props(p Ports, s Settings) *actor.Props {
	g = g.onlyEnabled(p)
	kinds := make([]*actor.Props, len(g.children))
	for i, c := range g.children {
		if c.group != nil {
			kinds[i] = c.group.props(p, s)
		} else {
			kinds[i] = c.props(p, s)
		}
	}
	return p.Env.Props(g.name, func() actor.Actor { return &supervisor{env: p.Env, group: g, kinds: kinds} },
		kit.Supervise(p.Env.Strategy(g.policy)))
}

// onlyEnabled returns the group without its disabled children.
func (g *group) onlyEnabled(p Ports) *group {
	enabled := *g
	enabled.children = slices.DeleteFunc(slices.Clone(g.children), func(c child) bool { return c.enabled != nil && !c.enabled(p) })
	return &enabled
}

// supervisor keeps the children of one group running. If one of them fails too often, it stops
// the whole group.
type supervisor struct {
	env            *kit.Env
	group          *group
	kinds          []*actor.Props
	pids           []*actor.PID
	stopping       bool
	drainRequester *actor.PID  // the sender of Drain
	undrained      []int       // indexes of children still to drain, the next one last
	drainingChild  *actor.PID  // the child that is draining
	cancelRetry    func() bool // stops the timer of drainRetry
}

// drainRetryInterval is the pause between repetitions of Drain to a child that has not answered.
// A child that restarts in between does not know of the first one.
const drainRetryInterval = time.Second

// drainRetry arrives when a child has not drained for drainRetryInterval.
type drainRetry struct{ child *actor.PID }

func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *actor.Stopping, *actor.Restarting:
		s.stopping = true
	case *actor.Terminated:
		s.childGone(ctx, m.Who)
	case *messages.AnnounceQueue:
		s.forwardReady(ctx)
	case *messages.Drain:
		s.drain(ctx)
	case *messages.DrainResult:
		s.drained(ctx)
	case *drainRetry:
		s.retryDrain(ctx, m.child)
	default:
		kit.Unexpected(ctx)
	}
}

func (s *supervisor) start(ctx actor.Context) {
	for i, c := range s.group.children {
		pid, err := ctx.SpawnNamed(s.kinds[i], c.name)
		if err != nil {
			panic(fmt.Errorf("start %s: %w", c.name, err))
		}
		s.pids = append(s.pids, pid)
	}
}

func (s *supervisor) forwardReady(ctx actor.Context) {
	for i, c := range s.group.children {
		if c.reportsReady {
			ctx.Forward(s.pids[i])
		}
	}
}

// childGone stops the group after a child has failed too often: a group without one of its
// children does not work. When the root group stops, the daemon stops, and its service manager
// restarts it.
func (s *supervisor) childGone(ctx actor.Context, pid *actor.PID) {
	if s.stopping {
		return
	}
	s.env.Log().WithField("actor", pid.GetId()).Error("actor failed too often; its group stops")
	ctx.Stop(ctx.Self())
}

func (s *supervisor) drain(ctx actor.Context) {
	s.drainRequester = ctx.Sender()
	s.undrained = nil
	for i, c := range s.group.children {
		if c.drains || c.group != nil {
			s.undrained = append(s.undrained, i)
		}
	}
	s.drainNext(ctx)
}

// drained drains the next child if the sender is the child that is draining. A child that got
// Drain twice may answer twice.
func (s *supervisor) drained(ctx actor.Context) {
	if s.drainingChild != nil && s.drainingChild.Equal(ctx.Sender()) {
		s.drainNext(ctx)
	}
}

func (s *supervisor) drainNext(ctx actor.Context) {
	if s.cancelRetry != nil {
		s.cancelRetry()
	}
	if len(s.undrained) == 0 {
		s.drainingChild = nil
		ctx.Request(s.drainRequester, &messages.DrainResult{})
		return
	}
	last := len(s.undrained) - 1
	s.drainingChild = s.pids[s.undrained[last]]
	s.undrained = s.undrained[:last]
	s.requestDrain(ctx)
}

func (s *supervisor) retryDrain(ctx actor.Context, child *actor.PID) {
	if s.drainingChild == child {
		s.env.Log().WithField("actor", child.GetId()).Info("this part of the daemon has not drained yet")
		s.requestDrain(ctx)
	}
}

func (s *supervisor) requestDrain(ctx actor.Context) {
	ctx.Request(s.drainingChild, &messages.Drain{})
	s.cancelRetry = kit.SendAfter(s.env.Clock(), ctx.ActorSystem(), drainRetryInterval, ctx.Self(), &drainRetry{s.drainingChild})
}
