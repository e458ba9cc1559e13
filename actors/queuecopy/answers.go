package queuecopy

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	corecopy "lockstep/core/queuecopy"
)

// await keeps a question, and looks at it when the nodes are known. A repetition of an open one changes nothing.
func (c *queuecopy) await(ctx actor.Context, m *Await) {
	if slices.ContainsFunc(c.questions, func(q question) bool { return q.Request == m.Request && q.sender.Equal(ctx.Sender()) }) {
		return
	}
	c.last++
	c.questions = append(c.questions, question{c.last, ctx.Sender(), m})
	if c.known != nil {
		c.tracker.Await(c.now(), c.last, m.Units)
		c.next(ctx)
	}
}

// awaitEarly looks at the questions that have come before the nodes were known.
func (c *queuecopy) awaitEarly() {
	for _, q := range c.questions {
		c.tracker.Await(c.now(), q.id, q.Units)
	}
}

// answer answers the questions that need not wait any longer, and forgets them.
func (c *queuecopy) answer(ctx actor.Context, all []corecopy.Released) {
	for _, released := range all {
		i := slices.IndexFunc(c.questions, func(q question) bool { return q.id == released.ID })
		if released.Late {
			c.config.Env.Log().WithField("duration", corecopy.AwaitMax).
				Warn("no majority of the master candidates has a change; its client gets the answer nevertheless")
		}
		ctx.Send(c.questions[i].sender, &AwaitResult{c.questions[i].Request, released.Late})
		c.questions = slices.Delete(c.questions, i, i+1)
	}
}

func (c *queuecopy) logCandidates(d corecopy.Decision) {
	for _, n := range d.Behind {
		c.config.Env.Log().WithFields(logrus.Fields{"node": n.Name, "address": n.Address, "duration": corecopy.AllMax}).
			Warn("a master candidate does not get changes of the queue in time; clients get their answers without it until it has caught up")
	}
	for _, n := range d.CaughtUp {
		c.config.Env.Log().WithFields(logrus.Fields{"node": n.Name, "address": n.Address}).
			Info("a master candidate has caught up with the queue; answers wait for it again")
	}
}
