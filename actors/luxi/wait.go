package luxi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// waitMax is the server's bound on WaitForJobChange (queue.md 1.6).
const waitMax = 89 * time.Second

var summaryOf = opcode.Summary

// jobWait is one WaitForJobChange.
type jobWait struct {
	id       job.ID
	fields   []*query.JobField
	previous any   // the field values that the client has, as generic JSON
	serial   int64 // the last log entry that the client has
	current  []any // [values, log entries], to answer with at the end
	expired  bool  // the end has come: whatever is seen first is the answer
}

// waitForJobChange answers at once when the job is final or differs from what
// the client has, and otherwise when it changes or the time is up (queue.md
// 1.6). The queue pushes changes: a wait costs no thread and reads no file.
func (c *connection) waitForJobChange(ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var names []string
	var previous any
	var serial *int64
	var seconds int64
	if err := arguments(args, &id, &names, &previous, &serial, &seconds); err != nil {
		return fmt.Errorf("WaitForJobChange: %w", err)
	}
	fields, _ := query.JobFields(names) // unknown ones are null here (queue.md 1.6, point 8)
	w := &jobWait{id: job.ID(id), fields: fields, previous: previous}
	if serial != nil {
		w.serial = *serial
	}
	c.wait = w
	c.ask(ctx, repeatable,
		func(ctx actor.Context, request uint64) {
			ctx.Request(c.config.Queue, &messages.SubscribeJob{Request: request, Id: int64(id)})
		},
		func(ctx actor.Context, answer any) {
			if a, ok := answer.(*messages.SubscribeJobResult); ok && a.Request == c.request {
				c.watched(ctx, a.Row)
			}
		})
	c.setTimer(ctx, time.Duration(max(0, min(seconds, int64(waitMax/time.Second))))*time.Second)
	return nil
}

func (c *connection) watched(ctx actor.Context, row *messages.JobRow) {
	switch {
	case row.Unknown:
		c.jobLost(ctx)
	case len(row.Info.Encoded) > 0:
		c.jobSeen(ctx, row.Info, row.Info.Encoded)
	default:
		number := c.request
		c.store.Read(ctx, "wait-job", paths.JobPath(row.Id), func(ctx actor.Context, m *messages.ReadFileResult) {
			switch {
			case number != c.request:
			case m.Missing || m.Failure != nil:
				c.jobLost(ctx)
			default:
				c.jobSeen(ctx, row.Info, m.Content)
			}
		})
	}
}

func (c *connection) jobChanged(ctx actor.Context, m *messages.JobChanged) {
	if c.wait != nil && int64(c.wait.id) == m.Info.Id {
		c.jobSeen(ctx, m.Info, m.Encoded)
	}
}

func (c *connection) jobSeen(ctx actor.Context, info *messages.JobInfo, encoded []byte) {
	j, err := job.Decode(encoded)
	if err != nil {
		c.jobLost(ctx)
		return
	}
	w := c.wait
	if len(encoded)*len(w.fields) > answerMax { // a field asked for twice is there twice
		ctx.Request(c.config.Queue, &messages.UnsubscribeJob{Id: int64(w.id)})
		c.fail(ctx, messages.Generic(errTooLarge))
		return
	}
	values := query.ClassicRow(w.fields, &query.JobItem{ID: w.id, Info: info, Job: j})
	log := query.LogEntries(j.LogAfter(w.serial))
	w.current = []any{values, log}
	if w.expired || j.Status().Final() || len(log) > 0 || !sameJSON(values, w.previous) {
		c.endWait(ctx)
	}
}

// endWait answers with how things stand, as soon as that is known.
func (c *connection) endWait(ctx actor.Context) {
	current := c.wait.current
	if current == nil {
		if !c.wait.expired {
			c.wait.expired = true
			c.setTimer(ctx, answerTimeout)
		}
		return
	}
	ctx.Request(c.config.Queue, &messages.UnsubscribeJob{Id: int64(c.wait.id)})
	c.succeed(ctx, current)
}

// answerNoChange gives up on a queue that has not said anything of the job: there is
// nothing to answer with but that.
func (c *connection) answerNoChange(ctx actor.Context) {
	ctx.Request(c.config.Queue, &messages.UnsubscribeJob{Id: int64(c.wait.id)})
	c.succeed(ctx, "nochange")
}

func (c *connection) jobLost(ctx actor.Context) {
	ctx.Request(c.config.Queue, &messages.UnsubscribeJob{Id: int64(c.wait.id)})
	c.fail(ctx, messages.JobLostFailure("Can't load job file"))
}

// sameJSON compares values with what a client sent, as JSON: 1 and 1.0 are the
// same number, keys have no order.
func sameJSON(values []any, previous any) bool {
	data, err := json.Marshal(values)
	if err != nil {
		return false
	}
	var ok any
	decoder := json.NewDecoder(bytes.NewReader(data))
	if err := decoder.Decode(&ok); err != nil {
		return false
	}
	return reflect.DeepEqual(ok, previous)
}
