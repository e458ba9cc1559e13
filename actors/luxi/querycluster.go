package luxi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/messages"
)

func (c *connection) queryClusterInfo(ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("QueryClusterInfo: %w", err)
	}
	c.askConfig(ctx, func(ctx actor.Context, content, _ []byte) {
		info, err := config.Info(content)
		if err != nil {
			c.fail(ctx, messages.ConfigurationFailure(err.Error()))
			return
		}
		c.succeed(ctx, info)
	})
	return nil
}

// queryConfigValues answers null for what it does not know (queue.md 1.7). Only
// those are asked who know what is wanted.
func (c *connection) queryConfigValues(ctx actor.Context, args []json.RawMessage) error {
	var names texts
	if err := arguments(args, &names); err != nil {
		return fmt.Errorf("QueryConfigValues: %w", err)
	}
	values := map[string]any{}
	answer := func(ctx actor.Context) {
		result := make([]any, len(names))
		for i, name := range names {
			result[i] = values[name]
		}
		c.succeed(ctx, result)
	}
	withPause := func(ctx actor.Context) {
		if !slices.Contains(names, "watcher_pause") {
			answer(ctx)
			return
		}
		c.watcherPause(ctx, func(ctx actor.Context, until any) {
			values["watcher_pause"] = until
			answer(ctx)
		})
	}
	withDrained := func(ctx actor.Context) {
		if !slices.Contains(names, "drain_flag") {
			withPause(ctx)
			return
		}
		c.withStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
			values["drain_flag"] = s.Drained
			withPause(ctx)
		})
	}
	c.askConfig(ctx, func(ctx actor.Context, content, _ []byte) {
		info, err := config.Info(content)
		if err != nil {
			c.fail(ctx, messages.ConfigurationFailure(err.Error()))
			return
		}
		values["cluster_name"], values["master_node"] = info["name"], info["master"]
		for _, name := range []string{"modify_ssh_setup", "ssh_key_type", "ssh_key_bits"} {
			values[name] = info[name]
		}
		withDrained(ctx)
	})
	return nil
}
