package luxi

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/messages"
)

// replaceFilter takes [uuid or null, priority, predicates, action, reason]; the
// answer is the rule's uuid (queue.md 5.2). The uuid is made here, so that a
// request that has to be asked twice makes one rule.
func (c *connection) replaceFilter(ctx actor.Context, args []json.RawMessage) error {
	return c.replaceRule(ctx, args, func(ctx actor.Context, a *messages.ChangeFilterResult) { c.succeed(ctx, a.Uuid) })
}

// lockstepReplaceFilter is replaceFilter with an answer that says which jobs the rule decides
// about now: {"uuid", "count", "jobs": the first 20 ids}.
func (c *connection) lockstepReplaceFilter(ctx actor.Context, args []json.RawMessage) error {
	return c.replaceRule(ctx, args, func(ctx actor.Context, a *messages.ChangeFilterResult) {
		jobs := a.LowestJobs
		if jobs == nil {
			jobs = []int64{}
		}
		c.succeed(ctx, answer.FilterReplaced{UUID: a.Uuid, Count: a.Matches, Jobs: jobs})
	})
}

func (c *connection) replaceRule(ctx actor.Context, args []json.RawMessage, done func(actor.Context, *messages.ChangeFilterResult)) error {
	var uuid, priority, predicates, action, reason json.RawMessage
	if err := arguments(args, &uuid, &priority, &predicates, &action, &reason); err != nil {
		return fmt.Errorf("%s: %w", c.method, err)
	}
	if string(uuid) == "null" {
		uuid = json.RawMessage(quote(c.config.NewUUID()))
	}
	by := c.by
	c.changeFilter(ctx, func(request uint64) any {
		return &messages.ChangeFilter{Request: request, By: by, Change: &messages.ChangeFilter_Replace{
			Replace: &messages.FilterParts{Uuid: uuid, Priority: priority, Predicates: predicates, Action: action, Reason: reason}}}
	}, done)
	return nil
}

func (c *connection) deleteFilter(ctx actor.Context, args []json.RawMessage) error {
	var uuid string
	if err := arguments(args, &uuid); err != nil {
		return fmt.Errorf("DeleteFilter: %w", err)
	}
	by := c.by
	c.changeFilter(ctx, func(request uint64) any {
		return &messages.ChangeFilter{Request: request, By: by, Change: &messages.ChangeFilter_Delete{Delete: uuid}}
	},
		func(ctx actor.Context, _ *messages.ChangeFilterResult) { c.succeed(ctx, nil) })
	return nil
}

func (c *connection) changeFilter(ctx actor.Context, question func(request uint64) any, done func(actor.Context, *messages.ChangeFilterResult)) {
	c.askCore(ctx, c.config.Filters, question, func(ctx actor.Context, m any) {
		a, ok := m.(*messages.ChangeFilterResult)
		switch {
		case !ok || a.Request != c.request:
		case a.Malformed:
			c.refuse(ctx, errors.New(c.method+": "+a.Failure.Text))
		case a.Failure != nil:
			c.fail(ctx, a.Failure)
		default:
			done(ctx, a)
		}
	})
}

func (c *connection) askFilters(ctx actor.Context, answer func(ctx actor.Context, rules [][]byte)) {
	c.askCore(ctx, c.config.Filters,
		func(request uint64) any { return &messages.ListFilters{Request: request} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ListFiltersResult); ok && a.Request == c.request {
				answer(ctx, a.Rules)
			}
		})
}
