package queue

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
	"lockstep/messages"
)

// callOff calls off the starts of those of the jobs that are active. Before it, the scheduler was told what keeps the
// jobs from beginning an opcode. done receives the jobs that may begin their next opcode nevertheless.
func (q *queue) callOff(ctx actor.Context, ids []int64, done func(ctx actor.Context, mayBegin []int64)) {
	ids = slices.DeleteFunc(ids, func(id int64) bool { e := q.index.get(id); return e == nil || e.stage != active })
	if len(ids) == 0 {
		done(ctx, nil)
		return
	}
	q.callOffs.Ask(ctx, func(n uint64) any { return &messages.CallOff{Request: n, Ids: ids} },
		func(ctx actor.Context, m *messages.CallOffResult) { done(ctx, m.MayBegin) })
}

// takeVerdicts takes verdicts that a change of the rules has changed, and answers when starts are called off.
func (q *queue) takeVerdicts(ctx actor.Context, m *messages.VerdictsChanged) {
	q.verdictsChanged(ctx, m)
	q.callOffByRules(ctx, m.Verdicts, q.tellTaken(m.Request))
}

// tellTaken tells the filter engine, which answers the author of a rule after that, that verdicts are in force.
func (q *queue) tellTaken(request uint64) func(ctx actor.Context) {
	return func(ctx actor.Context) { ctx.Send(q.config.Filters, &messages.VerdictsTaken{Request: request}) }
}

// callOffByRules calls off the starts of the jobs that new verdicts pause or reject.
func (q *queue) callOffByRules(ctx actor.Context, verdicts []*messages.Verdict, done func(ctx actor.Context)) {
	var ids []int64
	for _, v := range verdicts {
		if verb := filter.VerbOf(v); verb == filter.Pause || verb == filter.Reject {
			ids = append(ids, v.Id)
		}
	}
	q.callOff(ctx, ids, func(ctx actor.Context, _ []int64) { done(ctx) })
}
