package locks

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
)

// fenceOver is due when the jobs of a former master have ended.
type fenceOver struct{ incarnation uint32 }

// begin reads the files when the fence is over, and keeps what it is asked until then. So
// it grants nothing before, not even to an owner that waits according to the files: a job of
// the former master may work with the same lock.
func (l *locks) begin(ctx actor.Context) {
	left := l.fence.Remaining(l.config.Env.Clock().Now())
	l.fenced = left > 0
	if !l.fenced {
		l.recover(ctx)
		return
	}
	kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), left, ctx.Self(), &fenceOver{l.incarnation})
}

func (l *locks) fenceOver(ctx actor.Context, m *fenceOver) {
	if m.incarnation == l.incarnation {
		l.begin(ctx)
	}
}
