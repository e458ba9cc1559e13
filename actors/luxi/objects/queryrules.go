package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/config"
	"lockstep/core/query"
	"lockstep/core/wire"
)

// queryRules answers a Query for filter rules (queue.md 2.7).
func queryRules(c *call.Call, ctx actor.Context, fields []string, filter json.RawMessage) error {
	q, err := query.Filters.NewQuery(fields, filter)
	if err != nil {
		return err
	}
	askRules(c, ctx, func(ctx actor.Context, rules []*config.Object) { answerItems(c, ctx, q, false, rules) })
	return nil
}

// queryFilters takes [[uuid, ...] or null, [field, ...]]. Without a uuid it answers with all rules; a uuid without a
// rule is left out.
func queryFilters(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var uuids *call.Texts
	var names call.Texts
	if err := wire.Arguments(args, &uuids, &names); err != nil {
		return fmt.Errorf("QueryFilters: %w", err)
	}
	q, err := query.Filters.NewClassicQuery(names)
	if err != nil {
		c.FailQuery(ctx, err)
		return nil
	}
	askRules(c, ctx, func(ctx actor.Context, rules []*config.Object) {
		if uuids != nil && len(*uuids) > 0 {
			rules = slices.DeleteFunc(rules, func(rule *config.Object) bool { return !slices.Contains(*uuids, rule.Text("uuid")) })
		}
		answerItems(c, ctx, q, true, rules)
	})
	return nil
}
