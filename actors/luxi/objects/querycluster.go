package objects

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/config"
	"lockstep/core/wire"
	"lockstep/messages"
)

// queryClusterInfo takes []. The answer is the cluster object of the configuration, in Ganeti's shape.
func queryClusterInfo(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("QueryClusterInfo: %w", err)
	}
	askOfConfig(c, ctx, config.Info, func(ctx actor.Context, info map[string]any) { c.Succeed(ctx, info) })
	return nil
}

// queryConfigValues takes [[name, ...]]. The answer is a list of values, null for an unknown name (queue.md 1.7). Only
// the actors that know a wanted value are asked.
func queryConfigValues(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var names call.Texts
	if err := wire.Arguments(args, &names); err != nil {
		return fmt.Errorf("QueryConfigValues: %w", err)
	}
	v := &configValues{Call: c, names: names, values: map[string]any{}}
	askOfConfig(c, ctx, config.Info, v.addInfo)
	return nil
}

// configValues collects the values of a QueryConfigValues, by name: from the configuration, then the queue, then the
// watcher's pause file.
type configValues struct {
	*call.Call
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
	v.AskStatus(ctx, func(ctx actor.Context, s *messages.GetQueueStatusResult) {
		v.values["drain_flag"] = s.Drained
		v.addPause(ctx)
	})
}

func (v *configValues) addPause(ctx actor.Context) {
	if !slices.Contains(v.names, "watcher_pause") {
		v.answerValues(ctx)
		return
	}
	readWatcherPause(v.Call, ctx, func(ctx actor.Context, until any) {
		v.values["watcher_pause"] = until
		v.answerValues(ctx)
	})
}

func (v *configValues) answerValues(ctx actor.Context) {
	result := make([]any, len(v.names))
	for i, name := range v.names {
		result[i] = v.values[name]
	}
	v.Succeed(ctx, result)
}
