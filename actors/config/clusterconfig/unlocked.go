package clusterconfig

import (
	"fmt"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/config/calls"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/messages"
)

// Unlocked is a call that changes objects of the configuration without their locks.
type Unlocked struct {
	Method  string
	Job     int64 // 0: no job
	PID     int   // of the client
	Objects string
	Refused bool
}

// foundUnlocked tells of a call that changes objects without their locks. It reports whether the call is refused and answered.
func (c *clusterconfig) foundUnlocked(ctx actor.Context, r *request, by journal.Author) (refused bool) {
	settings, err := config.DecodeSettings(c.settings.content)
	refused = err == nil && settings.ConfigLockCheck == config.LockCheckRefuse
	objects := objectNames(by.Unlocked)
	if c.config.Unlocked != nil {
		c.config.Unlocked(Unlocked{by.Method, by.Job, by.Caller.PID, objects, refused})
	}
	if refused {
		text := fmt.Sprintf("%s changes %s without the lock in exclusive mode, and the setting config_lock_check is %s",
			by.Method, objects, config.LockCheckRefuse)
		r.answer(ctx, calls.Outcome{Err: errorOf(messages.ConfigurationFailure(text))}, nil)
	}
	return refused
}

// objectNames names the first five of the objects, as kind/uuid, and counts the others.
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
