package audit

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/features"
	"lockstep/core/replication"
)

// askPause is how long the answer to a question about the members may take before it is asked again.
const askPause = 2 * time.Second

// ask reports whether all members of the cluster know the log. While that is not known it asks, and the entries wait. A member of an older
// version could not write the files of the log, and would not get past the entry of the consensus log that has them.
func (a *audit) ask(ctx actor.Context) bool {
	if !a.known && !a.asking {
		a.question++
		a.asking = true
		number := uint64(a.incarnation)<<32 + a.question
		ctx.Request(a.config.Features, &features.Ask{Request: number, Feature: replication.AuditLog})
		a.after(ctx, askPause, &askAgain{a.incarnation, a.question})
	}
	return a.known
}

// answered writes the entries that wait. If a member does not know the log, they are dropped, and what they say is done nevertheless: an
// upgrade needs such changes.
func (a *audit) answered(ctx actor.Context, m *features.AskResult) {
	if !a.asking || m.Request != uint64(a.incarnation)<<32+a.question {
		return
	}
	a.asking = false
	if a.known = m.Lacking == ""; a.known {
		a.write(ctx)
		return
	}
	if !a.warned {
		a.warned = true
		a.config.Env.Log().WithField("node", m.Lacking).
			Warn("changes are not in the audit log until this node is upgraded: its version does not know the log, or is not known yet")
	}
	a.writing, a.waiting = a.waiting, nil
	a.answer(ctx, nil)
}
