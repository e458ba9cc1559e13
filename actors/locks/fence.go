package locks

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
)

// fenceExpired is a timer: jobs of a former master have ended.
type fenceExpired struct{ incarnation uint32 }

// startAfterFence reads the files once the fence has passed, and defers calls until then.
// Nothing is granted before, not even to an owner that waits according to the files,
// because a job of the former master may use the same lock.
func (l *locks) startAfterFence(ctx actor.Context) {
	remaining := l.fence.Remaining(l.config.Env.Clock().Now())
	l.fenced = remaining > 0
	if !l.fenced {
		l.recover(ctx)
		return
	}
	kit.SendAfter(l.config.Env.Clock(), ctx.ActorSystem(), remaining, ctx.Self(), &fenceExpired{l.incarnation})
}

func (l *locks) fenceExpired(ctx actor.Context, m *fenceExpired) {
	if m.incarnation == l.incarnation {
		l.startAfterFence(ctx)
	}
}
