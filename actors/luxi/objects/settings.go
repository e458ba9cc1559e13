package objects

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/config"
	"lockstep/core/config/model"
	"lockstep/core/wire"
	"lockstep/messages"
)

// slotsSetting is the only setting that is part of Ganeti's configuration.
const slotsSetting = "max_running_jobs"

// lockstepGetSettings takes []. The answer is an object of all settings and their present values.
func lockstepGetSettings(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	if err := wire.Arguments(args); err != nil {
		return fmt.Errorf("LockstepGetSettings: %w", err)
	}
	answerSettings(c, ctx)
	return nil
}

func answerSettings(c *call.Call, ctx actor.Context) {
	askConfig(c, ctx, func(ctx actor.Context, current *model.Config, settings []byte) {
		cluster, err := config.ClusterOf(current)
		if err != nil {
			c.Fail(ctx, configFailure(err))
			return
		}
		own, err := config.DecodeSettings(settings)
		if err != nil {
			own = config.DefaultSettings() // as the other actors do
		}
		all := own.Values()
		all[slotsSetting] = json.RawMessage(strconv.Itoa(cluster.MaxRunningJobs))
		c.Succeed(ctx, all)
	})
}

// lockstepSetSettings takes an object of settings and their new values; a null restores the default. The answer is that
// of lockstepGetSettings, after the change.
func lockstepSetSettings(c *call.Call, ctx actor.Context, args []json.RawMessage) error {
	var values map[string]json.RawMessage
	if err := wire.Arguments(args, &values); err != nil {
		return fmt.Errorf("LockstepSetSettings: %w", err)
	}
	own, cluster := map[string][]byte{}, map[string][]byte{}
	for name, value := range values {
		switch {
		case name == "max_tracked_jobs": // lockstep ignores it; Ganeti has it as a parameter of the queue
			cluster[name] = value
		case name != slotsSetting:
			own[name] = value
		case string(value) == "null":
			cluster[name] = []byte(strconv.Itoa(config.DefaultMaxRunningJobs))
		default:
			cluster[name] = value
		}
	}
	askConfig(c, ctx, func(ctx actor.Context, current *model.Config, settings []byte) {
		if err := checkSettings(current, settings, own, cluster); err != nil {
			c.Fail(ctx, messages.PrereqFailure(messages.WrongInput, err.Error()))
			return
		}
		editConfig(c, ctx, &messages.EditConfig{Settings: own}, func(ctx actor.Context) {
			editConfig(c, ctx, &messages.EditConfig{Cluster: cluster}, func(ctx actor.Context) { answerSettings(c, ctx) })
		})
	})
	return nil
}

// checkSettings reports an error that a change would meet, before the first of the two changes: neither must be made
// without the other.
func checkSettings(current *model.Config, settings []byte, own, cluster map[string][]byte) error {
	if _, err := config.EditSettings(settings, own); err != nil {
		return err
	}
	if value, given := cluster[slotsSetting]; given {
		if n, err := strconv.Atoi(string(value)); err != nil || n < 1 {
			return fmt.Errorf("%s: %s is not a positive number", slotsSetting, value)
		}
	}
	_, err := config.Edit(current, 0, config.ConfigChange{Cluster: cluster})
	return err
}

// editConfig changes the configuration or the settings. An empty change is not sent.
func editConfig(c *call.Call, ctx actor.Context, m *messages.EditConfig, then func(actor.Context)) {
	if len(m.Settings)+len(m.Cluster) == 0 {
		then(ctx)
		return
	}
	q := call.ToCore(c.Config.ClusterConfig, func(number uint64) any {
		return &messages.EditConfig{Request: number, Settings: m.Settings, Cluster: m.Cluster, By: c.By}
	})
	call.AskFallible(c, ctx, q, func(ctx actor.Context, _ *messages.EditConfigResult) { then(ctx) })
}
