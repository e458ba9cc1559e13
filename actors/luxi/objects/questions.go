package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/luxi/call"
	copier "lockstep/actors/queuecopy"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/query"
	"lockstep/core/queuecopy"
	"lockstep/messages"
)

// The questions of calls to other actors about objects, one function each. then gets the answer; a failure becomes the
// answer to the client. Each question may be sent twice.

// askMarked asks which jobs wait for the end of other jobs, and which are shown as waiting for locks.
func askMarked(c *call.Call, ctx actor.Context, then func(actor.Context, *messages.ListDependenciesResult)) {
	q := call.ToCore(c.Config.Scheduler, func(number uint64) any { return &messages.ListDependencies{Request: number, Marked: true} })
	call.Ask(c, ctx, q, then)
}

// askBlocked asks which jobs wait for the end of other jobs, and which are not started because of locks.
func askBlocked(c *call.Call, ctx actor.Context, then func(actor.Context, *messages.ListDependenciesResult)) {
	q := call.ToCore(c.Config.Scheduler, func(number uint64) any {
		return &messages.ListDependencies{Request: number, Blocked: true}
	})
	call.Ask(c, ctx, q, then)
}

// askConfig asks for the configuration and for lockstep's settings, the content of settings.json.
func askConfig(c *call.Call, ctx actor.Context, then func(ctx actor.Context, config *model.Config, settings []byte)) {
	call.Ask(c, ctx, call.ToCore(c.Config.ClusterConfig, func(number uint64) any { return &messages.PublishConfig{Request: number} }),
		func(ctx actor.Context, a *clusterconfig.ConfigPublished) { then(ctx, a.Config, a.Settings) })
}

// askOfConfig asks for the configuration and computes a part of it. An error of part is a ConfigurationError.
func askOfConfig[T any](c *call.Call, ctx actor.Context, part func(*model.Config) (T, error), then func(actor.Context, T)) {
	askConfig(c, ctx, func(ctx actor.Context, config *model.Config, _ []byte) {
		value, err := part(config)
		if err != nil {
			c.Fail(ctx, configFailure(err))
			return
		}
		then(ctx, value)
	})
}

func configFailure(err error) *messages.Failure {
	return messages.ConfigurationFailure(err.Error())
}

// askDocument asks for the objects of the configuration.
func askDocument(c *call.Call, ctx actor.Context, then func(actor.Context, *config.Document)) {
	askConfig(c, ctx, func(ctx actor.Context, current *model.Config, _ []byte) { then(ctx, config.DocumentOf(current)) })
}

// askRules asks for the filter rules, decoded and in the order of answers. A rule that cannot be decoded fails the call.
func askRules(c *call.Call, ctx actor.Context, then func(actor.Context, []*config.Object)) {
	q := call.ToCore(c.Config.Filters, func(number uint64) any { return &messages.ListFilters{Request: number} })
	call.Ask(c, ctx, q, func(ctx actor.Context, a *messages.ListFiltersResult) {
		rules := make([]*config.Object, len(a.Rules))
		for i, data := range a.Rules {
			if err := json.Unmarshal(data, &rules[i]); err != nil {
				c.Fail(ctx, messages.Generic(fmt.Errorf("decode a filter rule: %w", err)))
				return
			}
		}
		slices.SortFunc(rules, func(a, b *config.Object) int { return query.CompareRules(*a, *b) })
		then(ctx, rules)
	})
}

// askCopies asks which candidates are behind with the queue; nil without copies.
func askCopies(c *call.Call, ctx actor.Context, then func(actor.Context, []queuecopy.NodeState)) {
	if c.Config.QueueCopy == nil {
		then(ctx, nil)
		return
	}
	q := conn.Question{To: c.Config.QueueCopy, LostBy: conn.CopierRestart,
		Message: func(number uint64) any { return &copier.GetNodes{Request: number} }}
	call.Ask(c, ctx, q, func(ctx actor.Context, a *copier.GetNodesResult) { then(ctx, a.Nodes) })
}
