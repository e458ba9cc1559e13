package luxi

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// eventsMax bounds the changes that a connection keeps for its client between two calls.
const eventsMax = 10_000

// jobEvents are the changes of jobs that a connection has received and its client has not.
type jobEvents struct {
	subscribed bool
	changed    []*messages.JobInfo
	archived   []int64
	missed     bool // some changes are lost
	// awaited: the current call waits for the next change.
	awaited bool
}

// lockstepEvents takes [seconds]. The answer is an answer.JobEvents, as soon as there is a change, after the time at the
// latest. The first call on a connection subscribes, and is answered at once.
func lockstepEvents(c *call, ctx actor.Context, args []json.RawMessage) error {
	var seconds int64
	if err := arguments(args, &seconds); err != nil {
		return fmt.Errorf("LockstepEvents: %w", err)
	}
	e := c.events
	if !e.subscribed {
		e.subscribed, e.missed = true, true
		ctx.Request(c.config.Queue, &messages.SubscribeAllJobs{})
	}
	c.session.Begin()
	if !e.isEmpty() {
		c.answerEvents(ctx)
		return nil
	}
	e.awaited = true
	c.setTimer(ctx, time.Duration(max(0, min(seconds, int64(waitMax/time.Second))))*time.Second)
	return nil
}

func (e *jobEvents) isEmpty() bool { return len(e.changed)+len(e.archived) == 0 && !e.missed }

// add keeps changes. Above the bound it keeps none, and the client lists the jobs.
func (e *jobEvents) add(m *messages.JobStatesChanged) {
	e.changed, e.archived = append(e.changed, m.Jobs...), append(e.archived, m.Archived...)
	if len(e.changed)+len(e.archived) > eventsMax {
		e.changed, e.archived, e.missed = nil, nil, true
	}
}

// answerEvents answers with all changes, and forgets them.
func (c *call) answerEvents(ctx actor.Context) {
	e := c.events
	frame := append(wire.AppendResult(nil), `{"jobs":[`...)
	for i, info := range e.changed {
		if i > 0 {
			frame = append(frame, ',')
		}
		frame = query.AppendListed(frame, info, false)
	}
	archived, err := json.Marshal(append([]int64{}, e.archived...))
	if err != nil {
		panic(fmt.Errorf("ids cannot be encoded: %w", err))
	}
	frame = fmt.Appendf(frame, `],"archived":%s,"missed":%t}`, archived, e.missed)
	e.changed, e.archived, e.missed, e.awaited = nil, nil, false, false
	c.answer(ctx, wire.CloseResult(frame))
}

// eventsArrived answers a call that waits for changes.
func (c *call) eventsArrived(ctx actor.Context) {
	if c.events.awaited && !c.ended {
		c.answerEvents(ctx)
	}
}
