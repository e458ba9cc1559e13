// Package events is the actor that turns messages about jobs, filter rules, locks and schedules
// into events.
//
// It owns the last filter rules that it received, to tell a changed rule from a repeated
// one, and for each waiting lock owner the time since which it waits. The queue, the
// configuration actor, the lock manager and the calendar send it changes. It may be asked to send events to
// a subscriber. It passes events and measurements to the port Feed, which must not block.
//
// Its state is lost in a crash, except its subscribers. After its crash, or the crash of a
// sender, it tells the feed and the subscribers that events may be missing.
package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/calendar"
	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/answer"
	"lockstep/core/config/model"
	"lockstep/core/config/ownrules"
	"lockstep/core/lock"
	"lockstep/messages"
)

// Kind names the subject of an event, as clients of the event stream see it: a job, a filter rule, locks, or a schedule.
type Kind string

// Kinds of events.
const (
	Jobs      Kind = answer.EventJob
	Filters   Kind = answer.EventFilter
	Locks     Kind = answer.EventLock
	Schedules Kind = answer.EventSchedule
)

// Feed is the port that takes events and measurements for clients of this process. Its methods do not block.
type Feed interface {
	// Publish takes one event as JSON, which never changes afterwards.
	Publish(kind Kind, data []byte)
	// Missed says that events may have been lost.
	Missed(why string)
	// Ended is called once for each end of a job.
	Ended(End)
	// TriesEnded takes how many tries have ended that were not the last ones of their opcodes.
	TriesEnded(tries int64)
	// Waited takes how long an owner has waited for locks that it got or no longer wants.
	Waited(d time.Duration)
	// Waiting takes the number of owners that wait for locks now.
	Waiting(owners int)
}

// End is the measurement of a job that has ended. Ran is 0 for a job that was never started.
type End struct {
	Status  string
	Started bool
	Waited  time.Duration // from its submission to its start
	Ran     time.Duration
}

// Discard is a Feed that drops everything, for daemons and tests that serve no event streams.
type Discard struct{}

func (Discard) Publish(Kind, []byte) {}
func (Discard) Missed(string)        {}
func (Discard) Ended(End)            {}
func (Discard) TriesEnded(int64)     {}
func (Discard) Waited(time.Duration) {}
func (Discard) Waiting(int)          {}

// Config has the senders of changes, which the actor asks at its start, and the feed that gets events.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	ClusterConfig *actor.PID
	Feed          Feed
}

// Props describes the actor that turns changes of jobs, filter rules and locks into events. Its subscribers survive a restart.
func Props(c Config) *actor.Props {
	subscribers := &subscribers{}
	return c.Env.Props("events", func() actor.Actor {
		return &events{config: c, waiting: map[lock.Owner]time.Time{}, subscribers: subscribers}
	})
}

type events struct {
	config  Config
	rules   map[string]json.RawMessage        // by uuid; nil: not known yet
	stored  model.Container[model.FilterRule] // the origin of rules, with own
	own     ownrules.Rules
	waiting map[lock.Owner]time.Time // since when these owners wait for locks

	subscribers *subscribers // of all incarnations
}

func (e *events) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		e.missed(ctx, "the daemon has started to listen")
		ctx.Request(e.config.Queue, &messages.SubscribeAllJobs{})
		ctx.Request(e.config.ClusterConfig, &messages.PublishConfig{})
	case *messages.QueueStarted:
		e.missed(ctx, "the queue has started anew")
		ctx.Request(e.config.Queue, &messages.SubscribeAllJobs{})
	case *messages.LocksStarted:
		clear(e.waiting)
		e.config.Feed.Waiting(0)
		e.missed(ctx, "the lock manager has started anew")
	case *messages.JobStatesChanged:
		e.jobStatesChanged(ctx, m)
	case *clusterconfig.ConfigPublished:
		e.configChanged(ctx, m)
	case *locks.OwnersPublished:
		e.locksPublished(ctx, m)
	case *calendar.Happened:
		if m.Lost {
			e.missed(ctx, "the calendar has started anew")
		}
		for _, event := range m.Events {
			e.publish(ctx, Schedules, event)
		}
	case *Subscribe:
		if e.subscribers.add(ctx.Sender(), m.Kinds) {
			ctx.Watch(ctx.Sender())
		}
	case *actor.Terminated:
		e.subscribers.remove(m.Who)
	default:
		kit.Unexpected(ctx)
	}
}

// configChanged publishes the rules that were added, replaced or deleted. The first configuration publishes nothing.
func (e *events) configChanged(ctx actor.Context, m *clusterconfig.ConfigPublished) {
	if e.rules != nil && m.Config.Filters == e.stored && m.Rules == e.own {
		return
	}
	rules := m.FilterRules()
	e.stored, e.own = m.Config.Filters, m.Rules
	former := e.rules
	e.rules = rules
	if former == nil {
		return
	}
	for _, uuid := range slices.Sorted(maps.Keys(rules)) {
		was, known := former[uuid]
		switch {
		case !known:
			e.publish(ctx, Filters, answer.RuleEvent{UUID: uuid, Change: "added", Rule: rules[uuid]})
		case string(was) != string(rules[uuid]):
			e.publish(ctx, Filters, answer.RuleEvent{UUID: uuid, Change: "replaced", Rule: rules[uuid]})
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(former)) {
		if _, still := rules[uuid]; !still {
			e.publish(ctx, Filters, answer.RuleEvent{UUID: uuid, Change: "deleted"})
		}
	}
}

func (e *events) missed(ctx actor.Context, why string) {
	e.config.Feed.Missed(why)
	e.subscribers.missed(ctx)
}

func (e *events) publish(ctx actor.Context, kind Kind, event any) {
	data, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Errorf("a %s event cannot be encoded: %w", kind, err))
	}
	e.config.Feed.Publish(kind, data)
	e.subscribers.publish(ctx, kind, data)
}
