package luxi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/messages"
)

// queryRules answers a Query for filter rules (queue.md 2.7).
func (c *connection) queryRules(ctx actor.Context, fields []string, filter json.RawMessage) error {
	q, err := query.Filters.NewQuery(fields, filter)
	if err != nil {
		return err
	}
	c.withRules(ctx, func(ctx actor.Context, rules []*config.Object) { answerItems(c, ctx, q, false, rules) })
	return nil
}

// queryFilters takes [[uuid, ...] or null, [field, ...]]; no uuid means all
// rules, and one that there is not is left out.
func (c *connection) queryFilters(ctx actor.Context, args []json.RawMessage) error {
	var uuids *texts
	var names texts
	if err := arguments(args, &uuids, &names); err != nil {
		return fmt.Errorf("QueryFilters: %w", err)
	}
	q, err := query.Filters.NewClassicQuery(names)
	if err != nil {
		c.fail(ctx, queryFailure(err))
		return nil
	}
	c.withRules(ctx, func(ctx actor.Context, rules []*config.Object) {
		if uuids != nil && len(*uuids) > 0 {
			rules = slices.DeleteFunc(rules, func(rule *config.Object) bool { return !slices.Contains(*uuids, rule.Text("uuid")) })
		}
		answerItems(c, ctx, q, true, rules)
	})
	return nil
}

// withRules asks for the rules, in the order of answers.
func (c *connection) withRules(ctx actor.Context, answer func(actor.Context, []*config.Object)) {
	c.askFilters(ctx, func(ctx actor.Context, encoded [][]byte) {
		rules := make([]*config.Object, len(encoded))
		for i, data := range encoded {
			if err := json.Unmarshal(data, &rules[i]); err != nil {
				c.fail(ctx, messages.Generic(fmt.Errorf("a filter rule: %w", err)))
				return
			}
		}
		slices.SortFunc(rules, func(a, b *config.Object) int { return query.CompareRules(*a, *b) })
		answer(ctx, rules)
	})
}
