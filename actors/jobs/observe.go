package jobs

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// observeEnd has the other nodes of a cluster told of an end that the process has
// written itself, before anybody else is: what a client was told must not be undone
// by a failover. Alone, it goes on at once.
func (a *jobActor) observeEnd(ctx actor.Context, encoded []byte, then func(actor.Context)) {
	if a.config.Replicator == nil {
		then(ctx)
		return
	}
	a.observing, a.report = then, encoded
	a.observe(ctx)
}

func (a *jobActor) observe(ctx actor.Context) {
	ctx.Request(a.config.Replicator, &messages.ObserveJob{Request: a.number, Id: a.id, Encoded: a.report})
}

// observeAgain: the replicator has started anew, and has forgotten who waits.
func (a *jobActor) observeAgain(ctx actor.Context) {
	if _, started := ctx.Message().(*messages.StoreStarted); started && a.observing != nil {
		a.observe(ctx)
	}
}

func (a *jobActor) wasObserved(ctx actor.Context, m *messages.JobObserved) {
	if then := a.observing; then != nil && m.Request == a.number {
		a.observing = nil
		then(ctx)
	}
}
