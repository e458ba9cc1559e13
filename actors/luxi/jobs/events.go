package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/events"
	"lockstep/core/answer"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// A connection keeps at most this much for its client between two calls.
const (
	eventsMax     = 10_000
	otherBytesMax = 4 << 20 // of events of locks and filter rules
)

// pendingEvents are the events that a connection has received and its client has not.
type pendingEvents struct {
	subscribed bool // to jobs
	kinds      []events.Kind
	changed    []*messages.JobInfo
	archived   []int64
	others     []answer.OtherEvent
	otherBytes int
	missed     bool // some events are lost
	// awaiting is the call that waits for the next event; nil: none.
	awaiting *request
}

// lockstepEvents takes [seconds] or [seconds, kinds]. The answer is an answer.JobEvents, as soon as there is an event, after
// the time at the latest. The first call on a connection subscribes, and is answered at once; so is the first call with
// other kinds. Events of jobs are always sent.
func lockstepEvents(c *request, ctx actor.Context, args []json.RawMessage) error {
	var seconds int64
	var names []string
	into := []any{&seconds, &names}
	if err := wire.Arguments(args, into[:min(max(len(args), 1), 2)]...); err != nil {
		return fmt.Errorf("LockstepEvents: %w", err)
	}
	if err := c.subscribeEvents(ctx, names); err != nil {
		return fmt.Errorf("LockstepEvents: %w", err)
	}
	e := &c.client.pending
	c.Session.Begin()
	if !e.isEmpty() {
		c.answerEvents(ctx)
		return nil
	}
	e.awaiting, c.OnTimeout, c.OnDrain = c, c.answerEvents, c.answerEvents
	c.SetTimer(ctx, time.Duration(max(0, min(seconds, int64(waitMax/time.Second))))*time.Second)
	return nil
}

// subscribeEvents subscribes to jobs, and to these further kinds. A change of the kinds counts as missed events. The error is about an
// unknown kind.
func (c *request) subscribeEvents(ctx actor.Context, names []string) error {
	e := &c.client.pending
	var kinds []events.Kind
	for _, name := range names {
		switch {
		case !slices.Contains(answer.EventKinds(), name):
			return fmt.Errorf("there is no kind of events %q; there are %v", name, answer.EventKinds())
		case name != answer.EventJob && !slices.Contains(kinds, events.Kind(name)):
			kinds = append(kinds, events.Kind(name))
		}
	}
	if len(kinds) > 0 && c.Config.Events == nil {
		return errors.New("this daemon publishes events of jobs only")
	}
	if !e.subscribed {
		e.subscribed, e.missed = true, true
		ctx.Request(c.Config.Queue, &messages.SubscribeAllJobs{Progress: true})
	}
	if !slices.Equal(kinds, e.kinds) {
		e.kinds, e.missed = kinds, true
		ctx.Request(c.Config.Events, &events.Subscribe{Kinds: kinds})
	}
	return nil
}

func (e *pendingEvents) isEmpty() bool {
	return len(e.changed)+len(e.archived)+len(e.others) == 0 && !e.missed
}

// add keeps changes of jobs for the next call, within bounds.
func (e *pendingEvents) add(m *messages.JobStatesChanged) {
	e.changed, e.archived = append(e.changed, m.Jobs...), append(e.archived, m.Archived...)
	e.bound()
}

// addOther keeps an event of a lock or a rule for the next call, within bounds.
func (e *pendingEvents) addOther(m *events.EventPublished) {
	e.others, e.otherBytes = append(e.others, answer.OtherEvent{Kind: string(m.Kind), Data: m.Data}), e.otherBytes+len(m.Data)
	e.bound()
}

// bound keeps no event if there are too many. The client asks for the current state instead.
func (e *pendingEvents) bound() {
	if len(e.changed)+len(e.archived)+len(e.others) > eventsMax || e.otherBytes > otherBytesMax {
		e.forget()
		e.missed = true
	}
}

func (e *pendingEvents) forget() { e.changed, e.archived, e.others, e.otherBytes = nil, nil, nil, 0 }

// answerEvents answers with all changes, and forgets them.
func (c *request) answerEvents(ctx actor.Context) {
	e := &c.client.pending
	frame := append(wire.AppendResult(nil), `{"jobs":[`...)
	for i, info := range e.changed {
		if i > 0 {
			frame = append(frame, ',')
		}
		frame = query.AppendListed(frame, info, false)
	}
	frame = append(frame, `],"archived":`...)
	frame = appendJSON(frame, append([]int64{}, e.archived...))
	if len(e.others) > 0 {
		frame = append(frame, `,"others":`...)
		frame = appendJSON(frame, e.others)
	}
	frame = fmt.Appendf(frame, `,"missed":%t}`, e.missed)
	e.forget()
	e.missed, e.awaiting = false, nil
	c.Answer(ctx, wire.CloseResult(frame))
}

// appendJSON appends the JSON of a value that has one.
func appendJSON(to []byte, value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Errorf("events cannot be encoded: %w", err))
	}
	return append(to, data...)
}

// arrived answers the call that waits for events, if there is one.
func (e *pendingEvents) arrived(ctx actor.Context) {
	if e.awaiting != nil && !e.awaiting.Ended() {
		e.awaiting.answerEvents(ctx)
	}
}
