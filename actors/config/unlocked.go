package config

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/messages"
)

// foundUnlocked logs and counts a call that changes objects without their locks. It reports whether the call is refused and answered.
func (c *configActor) foundUnlocked(ctx actor.Context, r *request, by journal.Author) (refused bool) {
	settings, err := config.DecodeSettings(c.settings.content)
	refused = err == nil && settings.ConfigLockCheck == config.LockCheckRefuse
	if c.config.Unlocked != nil {
		c.config.Unlocked(refused)
	}
	objects := objectNames(by.Unlocked)
	c.config.Env.Log().WithFields(logrus.Fields{"method": by.Method, "job": by.Job, "pid": by.Caller.PID, "objects": objects, "refused": refused}).Warn(
		"a client changes objects of the configuration without their locks")
	if refused {
		r.answer(ctx, calls.Outcome{Err: errorOf(messages.ConfigurationFailure(fmt.Sprintf(
			"%s changes %s without the lock in exclusive mode, and the setting config_lock_check is %s", by.Method, objects, config.LockCheckRefuse)))}, nil)
	}
	return refused
}

// objectNames names the first of the objects.
func objectNames(objects []model.Touched) string {
	const most = 5
	var names []string
	for i, t := range objects {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(objects)-most))
			break
		}
		names = append(names, t.Kind+"/"+t.UUID)
	}
	return strings.Join(names, ", ")
}
