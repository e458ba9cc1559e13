package luxi

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/messages"
)

// askConfig asks for the configuration and for lockstep's own settings.
func (c *connection) askConfig(ctx actor.Context, answer func(ctx actor.Context, content, settings []byte)) {
	c.askCore(ctx, c.config.ClusterConfig,
		func(request uint64) any { return &messages.PublishConfig{Request: request} },
		func(ctx actor.Context, m any) {
			if a, ok := m.(*messages.ConfigPublished); ok && a.Request == c.request {
				answer(ctx, a.Content, a.Settings)
			}
		})
}

// withCluster is askConfig for what the queue needs of it.
func (c *connection) withCluster(ctx actor.Context, answer func(actor.Context, config.Cluster)) {
	c.askConfig(ctx, func(ctx actor.Context, content, _ []byte) {
		cluster, err := config.Decode(content)
		if err != nil {
			c.fail(ctx, messages.ConfigurationFailure(err.Error()))
			return
		}
		answer(ctx, cluster)
	})
}

// slotsSetting is the one setting that is in Ganeti's configuration.
const slotsSetting = "max_running_jobs"

// lockstepGetSettings is what can be changed at run time, by name.
func (c *connection) lockstepGetSettings(ctx actor.Context, args []json.RawMessage) error {
	if err := arguments(args); err != nil {
		return fmt.Errorf("LockstepGetSettings: %w", err)
	}
	c.answerSettings(ctx)
	return nil
}

func (c *connection) answerSettings(ctx actor.Context) {
	c.askConfig(ctx, func(ctx actor.Context, content, settings []byte) {
		cluster, err := config.Decode(content)
		if err != nil {
			c.fail(ctx, messages.ConfigurationFailure(err.Error()))
			return
		}
		own, err := config.DecodeSettings(settings)
		if err != nil {
			own = config.DefaultSettings() // as everybody takes it
		}
		all := own.Values()
		all[slotsSetting] = json.RawMessage(strconv.Itoa(cluster.MaxRunningJobs))
		c.succeed(ctx, all)
	})
}

// lockstepSetSettings takes an object of settings and their values; null is the
// default again. The answer is what is in force then.
func (c *connection) lockstepSetSettings(ctx actor.Context, args []json.RawMessage) error {
	var values map[string]json.RawMessage
	if err := arguments(args, &values); err != nil {
		return fmt.Errorf("LockstepSetSettings: %w", err)
	}
	own, cluster := map[string][]byte{}, map[string][]byte{}
	for name, value := range values {
		switch {
		case name == "max_tracked_jobs": // of no use here, but a parameter of the queue
			cluster[name] = value
		case name != slotsSetting:
			own[name] = value
		case string(value) == "null":
			cluster[name] = []byte(strconv.Itoa(config.DefaultMaxRunningJobs))
		default:
			cluster[name] = value
		}
	}
	c.askConfig(ctx, func(ctx actor.Context, content, settings []byte) {
		if err := checkSettings(content, settings, own, cluster); err != nil {
			c.fail(ctx, messages.PrereqFailure(messages.WrongInput, err.Error()))
			return
		}
		c.edit(ctx, &messages.EditConfig{Settings: own}, func(ctx actor.Context) {
			c.edit(ctx, &messages.EditConfig{Cluster: cluster}, c.answerSettings)
		})
	})
	return nil
}

// checkSettings finds out beforehand what would be refused: these are two changes,
// and one must not be made without the other.
func checkSettings(content, settings []byte, own, cluster map[string][]byte) error {
	if _, err := config.EditSettings(settings, own); err != nil {
		return err
	}
	if value, given := cluster[slotsSetting]; given {
		if n, err := strconv.Atoi(string(value)); err != nil || n < 1 {
			return fmt.Errorf("%s: %s is not a positive number", slotsSetting, value)
		}
	}
	_, err := config.Edit(content, 0, config.ConfigChange{Cluster: cluster})
	return err
}

// edit changes the configuration, if there is anything to change.
func (c *connection) edit(ctx actor.Context, m *messages.EditConfig, done func(actor.Context)) {
	if len(m.Settings)+len(m.Cluster) == 0 {
		done(ctx)
		return
	}
	c.askCore(ctx, c.config.ClusterConfig,
		func(request uint64) any {
			return &messages.EditConfig{Request: request, Settings: m.Settings, Cluster: m.Cluster}
		},
		func(ctx actor.Context, answer any) {
			a, ok := answer.(*messages.EditConfigResult)
			switch {
			case !ok || a.Request != c.request:
			case a.Failure != nil:
				c.fail(ctx, a.Failure)
			default:
				done(ctx)
			}
		})
}
