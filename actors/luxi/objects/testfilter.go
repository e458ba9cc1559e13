package objects

import (
	"encoding/json"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/filters"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/messages"
)

// lockstepTestFilter takes the arguments of ReplaceFilter and changes nothing. The answer is an answer.FilterPreview:
// what LockstepReplaceFilter would answer now. This actor judges the jobs, and the filter engine goes on meanwhile.
func lockstepTestFilter(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	parts, err := ruleOf(c, args)
	if err != nil {
		return err
	}
	rule, err := parts.Rule(c.Config.Env.Clock().Now().UnixNano())
	if err != nil {
		return refuseRule(c, ctx, err)
	}
	q := c.ToQueue(func(number uint64) any { return &messages.GetSerial{Request: number} })
	call.Ask(c, ctx, q, func(ctx actor.Context, a *messages.GetSerialResult) {
		rule.Watermark = job.ID(a.Serial)
		(&previewing{Call: c, rule: rule, answer: answer.FilterPreview{Jobs: []int64{}, States: map[string]int64{}}}).ask(ctx)
	})
	return nil
}

// refuseRule answers what is wrong with a rule. A malformed one makes the request invalid.
func refuseRule(c *call.Call, ctx actor.Context, err error) error {
	if filter.IsMalformed(err) {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	c.Fail(ctx, messages.Generic(err))
	return nil
}

// previewing is a LockstepTestFilter on its way through the jobs.
type previewing struct {
	*call.Call
	rule   filter.Rule
	answer answer.FilterPreview

	rules   *filter.Set // in force
	set     *filter.Set // with the rule
	declare filter.Declare
	jobs    []*filter.Subject
	more    bool               // there are jobs after the last one
	next    int                // index in jobs
	current *filter.Evaluation // of jobs[next]; nil: not begun
	hits    []int64            // the counted jobs; in the end those whose status is not known yet
}

// statesAsked is how many jobs the queue is asked about at a time.
const statesAsked = 5000

// ask takes the next jobs from the filters and judges them. If the rules have changed since the last jobs, the rule is checked against
// their budget again.
func (p *previewing) ask(ctx actor.Context) {
	after := int64(0)
	if len(p.jobs) > 0 {
		after = int64(p.jobs[len(p.jobs)-1].ID)
	}
	q := call.ToCore(p.Config.Filters, func(number uint64) any { return &filters.TakeJobs{Request: number, After: after} })
	call.Ask(p.Call, ctx, q, func(ctx actor.Context, a *filters.JobsTaken) {
		if p.rules != a.Rules {
			if err := a.Rules.CheckBudget(&p.rule); err != nil {
				if err = refuseRule(p.Call, ctx, err); err != nil {
					p.Refuse(ctx, err)
				}
				return
			}
			p.rules, p.set = a.Rules, a.Rules.With(p.rule)
		}
		p.jobs, p.next, p.more, p.declare = a.Jobs, 0, a.More, a.Declare
		p.Begin(ctx)
		p.judge(ctx)
	})
}

// judge judges the taken jobs until the slice of work is used up, and goes on later. After the last of them it takes the next jobs, or
// counts the states if there are no more.
func (p *previewing) judge(ctx actor.Context) {
	work := p.Slice()
	for ; p.next < len(p.jobs); p.next++ {
		if p.current == nil {
			e := p.set.Begin(p.jobs[p.next], p.declare)
			p.current = &e
		}
		v, done := p.current.Continue(&work)
		if !done {
			p.Later(ctx, p.judge)
			return
		}
		p.current = nil
		p.answer.Unfinished++
		if v.UUID != p.rule.UUID || v.Action.Verb == filter.Accept {
			continue
		}
		p.hits = append(p.hits, int64(p.jobs[p.next].ID))
		if p.answer.Count++; len(p.answer.Jobs) < filters.MatchesShown {
			p.answer.Jobs = append(p.answer.Jobs, int64(p.jobs[p.next].ID))
		}
	}
	if p.more {
		p.ask(ctx)
		return
	}
	p.countStates(ctx)
}

// countStates counts the statuses of the unfinished jobs among the hits, statesAsked in each question, and answers.
func (p *previewing) countStates(ctx actor.Context) {
	if len(p.hits) == 0 {
		p.Succeed(ctx, p.answer)
		return
	}
	ids := p.hits[:min(len(p.hits), statesAsked)]
	p.hits = p.hits[len(ids):]
	p.AskRows(ctx, ids, func(ctx actor.Context, rows []*messages.JobRow) {
		for _, row := range rows {
			if status := query.ClientStatus(row.GetInfo()); !row.Unknown && !status.Final() {
				p.answer.States[status.String()]++
			}
		}
		p.countStates(ctx)
	})
}
