// Package events is the actor that knows what has changed: of jobs, filter rules
// and locks.
//
// It owns what it was told last, to tell changes from repetitions, and since when
// owners wait for locks. It is told by the queue, by the configuration's actor and
// by the lock manager, and may be asked nothing; it tells the feed, a port, which
// is for whoever listens and counts. It holds nobody up. Nothing survives its
// crash, nor that of those who tell it: who listens is told that he may have
// missed something.
package events

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/actors/locks"
	"lockstep/core/config"
	"lockstep/core/lock"
	"lockstep/messages"
)

// Kind is what an event is about.
type Kind string

// Kinds of events.
const (
	Jobs    Kind = "job"
	Filters Kind = "filter"
	Locks   Kind = "lock"
)

// Feed takes what has changed. Its methods do not block.
type Feed interface {
	// Publish is one event, as JSON, nobody's to change.
	Publish(kind Kind, data []byte)
	// Missed: there may have been events of which nobody was told.
	Missed(why string)
	// Ended is told once of each end of a job.
	Ended(End)
	// Waited is how long an owner has waited for locks that it got, or does not
	// want any more.
	Waited(d time.Duration)
	// Waiting is how many owners wait for locks now.
	Waiting(owners int)
}

// End is how a job has ended. A job that was never started has run for no time.
type End struct {
	Status  string
	Started bool
	Waited  time.Duration // from its submission to its start
	Ran     time.Duration
}

// Config is what the actor needs.
type Config struct {
	Env           *kit.Env
	Queue         *actor.PID
	ClusterConfig *actor.PID
	Feed          Feed
}

// Props makes the actor.
func Props(c Config) *actor.Props {
	return c.Env.Props("events", func() actor.Actor {
		return &events{config: c, waiting: map[lock.Owner]time.Time{}}
	})
}

type events struct {
	config  Config
	rules   map[string]json.RawMessage // nil: not known yet
	waiting map[lock.Owner]time.Time   // for locks, since when
}

func (e *events) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		e.config.Feed.Missed("the daemon has started to listen")
		ctx.Request(e.config.Queue, &messages.SubscribeAllJobs{})
		ctx.Request(e.config.ClusterConfig, &messages.PublishConfig{})
	case *messages.QueueStarted:
		e.config.Feed.Missed("the queue has started anew")
		ctx.Request(e.config.Queue, &messages.SubscribeAllJobs{})
	case *messages.LocksStarted:
		clear(e.waiting)
		e.config.Feed.Waiting(0)
		e.config.Feed.Missed("the lock manager has started anew")
	case *messages.JobStatesChanged:
		e.jobStatesChanged(m)
	case *messages.ConfigPublished:
		e.configChanged(m)
	case *locks.Published:
		e.locksPublished(m)
	default:
		kit.Unexpected(ctx)
	}
}

// configChanged finds out which rules have changed. One who cannot read them does
// not complain: others do.
func (e *events) configChanged(m *messages.ConfigPublished) {
	rules, err := config.FilterRules(m.Content)
	if err != nil {
		return
	}
	former := e.rules
	e.rules = rules
	if former == nil {
		return
	}
	for _, uuid := range slices.Sorted(maps.Keys(rules)) {
		was, known := former[uuid]
		switch {
		case !known:
			e.publish(Filters, ruleEvent{UUID: uuid, Change: "added", Rule: rules[uuid]})
		case string(was) != string(rules[uuid]):
			e.publish(Filters, ruleEvent{UUID: uuid, Change: "replaced", Rule: rules[uuid]})
		}
	}
	for _, uuid := range slices.Sorted(maps.Keys(former)) {
		if _, still := rules[uuid]; !still {
			e.publish(Filters, ruleEvent{UUID: uuid, Change: "deleted"})
		}
	}
}

// ruleEvent is an event about a filter rule.
type ruleEvent struct {
	UUID   string          `json:"uuid"`
	Change string          `json:"change"`
	Rule   json.RawMessage `json:"rule"` // null when it is deleted
}

func (e *events) publish(kind Kind, event any) {
	data, err := json.Marshal(event)
	if err != nil {
		panic(fmt.Errorf("a %s event cannot be encoded: %w", kind, err))
	}
	e.config.Feed.Publish(kind, data)
}
