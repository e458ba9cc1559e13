package luxi

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/messages"
)

// queryClusterInfo takes []. The answer is the cluster object of the configuration, in Ganeti's shape.
func queryClusterInfo(c *call, ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("QueryClusterInfo: %w", err)
	}
	askOfConfig(c, ctx, config.Info, func(ctx actor.Context, info map[string]any) { c.succeed(ctx, info) })
	return nil
}

// queryConfigValues takes [[name, ...]]. The answer is a list of values, null for an unknown name (queue.md 1.7). Only
// the actors that know a wanted value are asked.
func queryConfigValues(c *call, ctx actor.Context, args []json.RawMessage) error {
	var names texts
	if err := arguments(args, &names); err != nil {
		return fmt.Errorf("QueryConfigValues: %w", err)
	}
	v := &configValues{call: c, names: names, values: map[string]any{}}
	askOfConfig(c, ctx, config.Info, v.addInfo)
	return nil
}

// configValues collects the values of a QueryConfigValues, by name: from the configuration, then the queue, then the
// watcher's pause file.
type configValues struct {
	*call
	names  []string
	values map[string]any
}

func (v *configValues) addInfo(ctx actor.Context, info map[string]any) {
	v.values["cluster_name"], v.values["master_node"] = info["name"], info["master"]
	for _, name := range []string{"modify_ssh_setup", "ssh_key_type", "ssh_key_bits"} {
		v.values[name] = info[name]
	}
	if !slices.Contains(v.names, "drain_flag") {
		v.addPause(ctx)
		return
	}
	v.askStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
		v.values["drain_flag"] = s.Drained
		v.addPause(ctx)
	})
}

func (v *configValues) addPause(ctx actor.Context) {
	if !slices.Contains(v.names, "watcher_pause") {
		v.answerValues(ctx)
		return
	}
	readWatcherPause(v.call, ctx, func(ctx actor.Context, until any) {
		v.values["watcher_pause"] = until
		v.answerValues(ctx)
	})
}

func (v *configValues) answerValues(ctx actor.Context) {
	result := make([]any, len(v.names))
	for i, name := range v.names {
		result[i] = v.values[name]
	}
	v.succeed(ctx, result)
}
