package objects

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/filter"
	"lockstep/core/wire"
	"lockstep/messages"
)

// replaceFilter takes [uuid or null, priority, predicates, action, reason]. The answer is the rule's uuid (queue.md 5.2).
// A null makes a new rule. Its uuid is made here, so that a question that is sent twice makes one rule.
func replaceFilter(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return replaceRule(c, ctx, args, func(ctx actor.Context, a *messages.ChangeFilterResult) { c.Succeed(ctx, a.Uuid) })
}

// lockstepReplaceFilter is replaceFilter with an answer.FilterReplaced, which also says which jobs the rule decides
// about now: their number and the first 20 ids.
func lockstepReplaceFilter(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	return replaceRule(c, ctx, args, func(ctx actor.Context, a *messages.ChangeFilterResult) {
		jobs := a.LowestJobs
		if jobs == nil {
			jobs = []int64{}
		}
		c.Succeed(ctx, answer.FilterReplaced{UUID: a.Uuid, Count: a.Matches, Jobs: jobs})
	})
}

// replaceRule adds or replaces a filter rule. The error is about the arguments.
func replaceRule(c *call.Call, ctx actor.Context, args []json.RawMessage, then func(actor.Context, *messages.ChangeFilterResult)) error {
	parts, err := ruleOf(c, args)
	if err != nil {
		return err
	}
	changeFilter(c, ctx, func(number uint64) any {
		replace := &messages.FilterParts{
			Uuid:       parts.UUID,
			Priority:   parts.Priority,
			Predicates: parts.Predicates,
			Action:     parts.Action,
			Reason:     parts.Reason,
			Lasts:      parts.Lasts,
		}
		return &messages.ChangeFilter{Request: number, By: c.By, Change: &messages.ChangeFilter_Replace{Replace: replace}}
	}, then)
	return nil
}

// ruleOf reads the arguments of ReplaceFilter. lockstep's methods may have one more: the seconds until the end of the rule, or null.
func ruleOf(c *call.Call, args []json.RawMessage) (r filter.ReplaceRequest, err error) {
	if len(args) == 6 && c.Method != "ReplaceFilter" {
		r.Lasts, args = args[5], args[:5]
	}
	if err := wire.Arguments(args, &r.UUID, &r.Priority, &r.Predicates, &r.Action, &r.Reason); err != nil {
		return r, fmt.Errorf("%s: %w", c.Method, err)
	}
	if string(r.UUID) == "null" {
		r.UUID = json.RawMessage(call.Quote(c.Config.NewUUID()))
	}
	return r, nil
}

// lockstepListFilters takes []. The answer is all rules as objects, in the order in which they apply, each as the configuration has it.
func lockstepListFilters(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("%s: %w", c.Method, err)
	}
	q := call.ToCore(c.Config.Filters, func(number uint64) any { return &messages.ListFilters{Request: number} })
	call.Ask(c, ctx, q, func(ctx actor.Context, a *messages.ListFiltersResult) {
		rules := make([]json.RawMessage, len(a.Rules))
		for i, rule := range a.Rules {
			rules[i] = rule
		}
		c.Succeed(ctx, rules)
	})
	return nil
}

// deleteFilter takes [uuid]. The answer is null.
func deleteFilter(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var uuid string
	if err := wire.Arguments(args, &uuid); err != nil {
		return fmt.Errorf("DeleteFilter: %w", err)
	}
	changeFilter(c, ctx, func(number uint64) any {
		return &messages.ChangeFilter{Request: number, By: c.By, Change: &messages.ChangeFilter_Delete{Delete: uuid}}
	}, func(ctx actor.Context, _ *messages.ChangeFilterResult) { c.Succeed(ctx, nil) })
	return nil
}

// changeFilter sends a change to the filters. Malformed parts of a rule make the request invalid.
func changeFilter(c *call.Call, ctx actor.Context, change func(number uint64) any, then func(actor.Context, *messages.ChangeFilterResult)) {
	call.Ask(c, ctx, call.ToCore(c.Config.Filters, change), func(ctx actor.Context, a *messages.ChangeFilterResult) {
		switch {
		case a.Malformed:
			c.Refuse(ctx, errors.New(c.Method+": "+a.Failure.Text))
		case a.Failure != nil:
			c.Fail(ctx, a.Failure)
		default:
			then(ctx, a)
		}
	})
}
