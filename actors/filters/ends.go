package filters

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/messages"
)

const (
	// endPause is the longest time between two looks at the clock, which an operator may set.
	endPause = time.Minute
	// deletePause is the pause after which a deletion that has failed is repeated.
	deletePause = 5 * time.Second
)

// ends are the rules with an end.
type ends struct {
	nextEnd  int64             // of the rules in force, in nanoseconds since 1970; 0: none has an end
	ended    []string          // uuids of rules whose end has come, and which are not deleted yet
	deleting map[uint64]string // open deletions, by the number of their request
	timer    uint64            // number of the last timer; an earlier one means nothing
}

// endDue is a timer: the end of a rule may have come, or a deletion is due again.
type endDue struct{ incarnation, timer uint64 }

// awaitEnd deletes the rules that have ended, and starts the timer for the next end.
func (f *filters) awaitEnd(ctx actor.Context) {
	for _, uuid := range f.ended {
		f.deleteEnded(ctx, uuid)
	}
	if f.nextEnd != 0 {
		f.startTimer(ctx, min(time.Duration(f.nextEnd-f.config.Env.Clock().Now().UnixNano()), endPause))
	}
}

func (f *filters) startTimer(ctx actor.Context, delay time.Duration) {
	f.timer++
	kit.SendAfter(f.config.Env.Clock(), ctx.ActorSystem(), max(delay, 0), ctx.Self(), &endDue{f.incarnation, f.timer})
}

// deleteEnded has a rule deleted from the configuration, unless a client has replaced it meanwhile. While a deletion is open it does
// nothing.
func (f *filters) deleteEnded(ctx actor.Context, uuid string) {
	for _, open := range f.deleting {
		if open == uuid {
			return
		}
	}
	f.request++
	if f.deleting == nil {
		f.deleting = map[uint64]string{}
	}
	f.deleting[f.request] = uuid
	ctx.Request(f.config.ClusterConfig, &messages.EditConfig{Request: f.request, Filter: uuid, IfRule: f.rawRules[uuid], By: endAuthor})
}

// endAuthor is the author of the deletion of a rule that has ended, in the history of the configuration.
const endAuthor = "end of the rule"

// deleted takes the outcome of a deletion. The rule does not apply any longer, so a deletion that has failed may wait.
func (f *filters) deleted(ctx actor.Context, m *messages.EditConfigResult, uuid string) {
	delete(f.deleting, m.Request)
	log := f.config.Env.Log().WithField("rule", uuid)
	if m.Failure == nil {
		log.Info("filter rule has ended")
		return
	}
	log.WithFields(logrus.Fields{"err": m.Failure.Text, "delay": deletePause}).
		Warn("filter rule that has ended cannot be deleted; it applies to no job")
	f.startTimer(ctx, deletePause)
}

// endDue is the timer of the next end of a rule. The rules are compiled without the ended ones, and all jobs are judged again.
func (f *filters) endDue(ctx actor.Context, m *endDue) {
	if m.incarnation != f.incarnation || m.timer != f.timer || f.rules == nil {
		return
	}
	if now := f.config.Env.Clock().Now().UnixNano(); f.nextEnd != 0 && now >= f.nextEnd {
		f.rules = f.compile(f.rawRules)
		f.rejudge(ctx)
	}
	f.awaitEnd(ctx)
}
