package supervisor

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/messages"
)

// props makes a group's supervisor. Its children's props are made once, here:
// what they count over their incarnations goes on when the group restarts.
func (g *group) props(p Ports, s Settings) *actor.Props {
	g = g.present(p)
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

// present is the group with those children that are wanted.
func (g *group) present(p Ports) *group {
	wanted := *g
	wanted.children = slices.DeleteFunc(slices.Clone(g.children), func(c child) bool { return c.wanted != nil && !c.wanted(p) })
	return &wanted
}

// supervisor keeps one group alive, or stops with it.
type supervisor struct {
	env      *kit.Env
	group    *group
	kinds    []*actor.Props
	pids     []*actor.PID
	leaving  bool
	draining *actor.PID  // who asked
	left     []int       // children still to drain, the next one last
	asked    *actor.PID  // the child that is draining
	stop     func() bool // its timer
}

// drainAgain is how often a child is told to drain until it has: one that
// restarts meanwhile has forgotten it.
const drainAgain = time.Second

// askAgain is due when a child takes long to drain.
type askAgain struct{ child *actor.PID }

func (s *supervisor) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		s.start(ctx)
	case *actor.Stopping, *actor.Restarting:
		s.leaving = true
	case *actor.Terminated:
		s.childGone(ctx, m.Who)
	case *messages.AskReady:
		s.forwardReady(ctx)
	case *messages.Drain:
		s.drain(ctx)
	case *messages.Drained:
		s.drained(ctx)
	case *askAgain:
		s.askAgain(ctx, m.child)
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
		if c.ready {
			ctx.Forward(s.pids[i])
		}
	}
}

// childGone: a child has failed too often. A group without one of its children
// is of no use, and stops; so in the end does the daemon, for whoever watches
// it to start it anew.
func (s *supervisor) childGone(ctx actor.Context, who *actor.PID) {
	if s.leaving {
		return
	}
	s.env.Log().WithField("actor", who.GetId()).Error("an actor has failed too often to go on")
	ctx.Stop(ctx.Self())
}

func (s *supervisor) drain(ctx actor.Context) {
	s.draining = ctx.Sender()
	s.left = nil
	for i, c := range s.group.children {
		if c.drain || c.group != nil {
			s.left = append(s.left, i)
		}
	}
	s.drainNext(ctx)
}

// drained goes on if it is the child at hand that says so; one that was asked
// twice may have answered twice.
func (s *supervisor) drained(ctx actor.Context) {
	if s.asked != nil && s.asked.Equal(ctx.Sender()) {
		s.drainNext(ctx)
	}
}

func (s *supervisor) drainNext(ctx actor.Context) {
	if s.stop != nil {
		s.stop()
	}
	if len(s.left) == 0 {
		s.asked = nil
		ctx.Request(s.draining, &messages.Drained{})
		return
	}
	last := len(s.left) - 1
	s.asked = s.pids[s.left[last]]
	s.left = s.left[:last]
	s.ask(ctx)
}

func (s *supervisor) askAgain(ctx actor.Context, child *actor.PID) {
	if s.asked == child {
		s.ask(ctx)
	}
}

func (s *supervisor) ask(ctx actor.Context) {
	ctx.Request(s.asked, &messages.Drain{})
	s.stop = kit.SendAfter(s.env.Clock(), ctx.ActorSystem(), drainAgain, ctx.Self(), &askAgain{s.asked})
}
