package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

// waitMax bounds the duration of a WaitForJobChange (queue.md 1.6).
const waitMax = 89 * time.Second

var summaryOf = opcode.Summary

// jobWait decides when one WaitForJobChange ends, and with which answer.
type jobWait struct {
	id       job.ID
	fields   []*query.JobField
	archived bool  // the file is in the archive
	previous any   // the field values that the client has, as generic JSON
	serial   int64 // the last log entry that the client has, 0 = none
	// current is [values, log entries after serial], as of the last state that was seen. nil: no state was seen.
	current []any
	// expired: the time is up. Until then current may stay; afterwards the first state that is seen ends the wait.
	expired bool
}

// errJobUnreadable means that the content of a job file is not a job.
var errJobUnreadable = errors.New("the job file cannot be decoded")

// see takes a state of the job. ends reports that current is the answer.
func (w *jobWait) see(info *messages.JobInfo, encoded []byte) (ends bool, err error) {
	j, err := job.Decode(encoded)
	if err != nil {
		return false, fmt.Errorf("%w: %w", errJobUnreadable, err)
	}
	if len(encoded)*len(w.fields) > query.AnswerMax { // the answer repeats a field that the client names twice
		return false, query.ErrTooLarge
	}
	values := query.ClassicRow(w.fields, &query.JobItem{ID: w.id, Archived: w.archived, Info: info, Job: j})
	log := query.LogEntries(j.LogAfter(w.serial))
	w.current = []any{values, log}
	return w.expired || j.Status().Final() || len(log) > 0 || !sameJSON(values, w.previous), nil
}

// sameJSON reports whether values are equal to those of a client as JSON: 1 equals 1.0, and the order of keys has no meaning.
func sameJSON(values []any, previous any) bool {
	data, err := json.Marshal(values)
	if err != nil {
		return false
	}
	var generic any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&generic); err != nil {
		return false
	}
	return reflect.DeepEqual(generic, previous)
}

// waitForJobChange takes [id, [field, ...], previous values or null, previous serial or null, seconds]. It answers at
// once if the job is final or differs from the state that the client has; otherwise when the job changes or the time is
// up (queue.md 1.6). The queue sends each change, so that a wait needs no thread and no file.
func waitForJobChange(c *request, ctx actor.Context, args []json.RawMessage) error {
	var id jobID
	var names []string
	var previous any
	var serial *int64
	var seconds int64
	if err := wire.Arguments(args, &id, &names, &previous, &serial, &seconds); err != nil {
		return fmt.Errorf("WaitForJobChange: %w", err)
	}
	fields, _ := query.JobFields(names) // the value of an unknown field is null (queue.md 1.6, point 8)
	w := &waitCall{request: c, jobWait: jobWait{id: job.ID(id), fields: fields, previous: previous}}
	if serial != nil {
		w.serial = *serial
	}
	c.askParent(ctx, func(ctx actor.Context, parent int64) {
		c.client.wait, c.OnTimeout, c.OnDrain = w, w.timedOut, w.expire
		w.observed = c.observeWait(ctx, parent, int64(id))
		w.subscribe(ctx)
		c.SetTimer(ctx, time.Duration(max(0, min(seconds, int64(waitMax/time.Second))))*time.Second)
	})
	return nil
}

// waitCall is the call of a WaitForJobChange. It subscribes to the job at the queue, and unsubscribes when it answers.
type waitCall struct {
	*request
	jobWait
	askedAgain bool // the queue, for a job without a file
	observed   bool // the scheduler knows of the wait
}

// subscribe subscribes to the job; the answer has its present row.
func (w *waitCall) subscribe(ctx actor.Context) {
	call.Ask(w.Call, ctx, w.ToQueue(func(number uint64) any { return &messages.SubscribeJob{Request: number, Id: int64(w.id)} }),
		func(ctx actor.Context, a *messages.SubscribeJobResult) { w.subscribed(ctx, a.Row) })
}

// subscribed takes the state of the job at the time of the subscription. The file has it if the queue does not. A job
// moves to the archive while the queue still has it.
func (w *waitCall) subscribed(ctx actor.Context, row *messages.JobRow) {
	archive := func(missing func(actor.Context)) {
		w.readState(ctx, paths.ArchivePath(row.Id), row.Info, missing)
	}
	switch {
	case row.Unknown:
		archive(w.failLost)
	case len(row.Info.Encoded) > 0:
		w.observe(ctx, row.Info, row.Info.Encoded)
	default:
		w.readState(ctx, paths.JobPath(row.Id), row.Info, func(actor.Context) { archive(w.missed) })
	}
}

// missed asks the queue again, once, for a job without a file: what it said of the job is older than the reads. It is
// the same question, so that its timer stays.
func (w *waitCall) missed(ctx actor.Context) {
	if w.askedAgain {
		ctx.Send(w.Config.Queue, &messages.JobFileMissed{Id: int64(w.id)})
		w.failLost(ctx)
		return
	}
	w.askedAgain = true
	ctx.Request(w.Config.Queue, &messages.SubscribeJob{Request: w.Session.Number(), Id: int64(w.id)})
}

// readState takes the state of the job from a file. info is nil if the queue does not have the job.
func (w *waitCall) readState(ctx actor.Context, file string, info *messages.JobInfo, missing func(actor.Context)) {
	w.Read(ctx, "wait-job", file, func(ctx actor.Context, m *messages.ReadFileResult) {
		j, err := job.Decode(m.Content)
		switch {
		case m.Missing:
			missing(ctx)
			return
		case m.Failure != nil || err != nil:
			w.failLost(ctx)
			return
		case info == nil:
			info = query.NewJobInfo(j, summaryOf, nil)
		}
		w.archived = file == paths.ArchivePath(int64(w.id))
		w.observe(ctx, info, m.Content)
	})
}

func (w *waitCall) changed(ctx actor.Context, m *messages.JobChanged) {
	if int64(w.id) == m.Info.Id {
		w.observe(ctx, m.Info, m.Encoded)
	}
}

func (w *waitCall) observe(ctx actor.Context, info *messages.JobInfo, encoded []byte) {
	size := len(encoded) * query.Copies(w.fields) // the answer is hardly longer
	if size > query.AnswerMax {
		w.unsubscribe(ctx)
		w.Fail(ctx, messages.Generic(query.ErrTooLarge))
		return
	}
	if !w.Session.Reserve(size) {
		w.unsubscribe(ctx)
		w.Fail(ctx, messages.GenericFailure(call.ErrNoMemory))
		return
	}
	switch ends, err := w.see(info, encoded); {
	case errors.Is(err, query.ErrTooLarge):
		w.unsubscribe(ctx)
		w.Fail(ctx, messages.Generic(query.ErrTooLarge))
	case err != nil:
		w.failLost(ctx)
	case ends:
		w.answerCurrent(ctx)
	}
}

// expire ends the wait with the last state that was seen. Without one, the first state that is seen ends the wait, if
// it is seen within call.Timeout.
func (w *waitCall) expire(ctx actor.Context) {
	switch {
	case w.current != nil:
		w.answerCurrent(ctx)
	case !w.expired:
		w.expired = true
		w.SetTimer(ctx, call.Timeout)
	}
}

// timedOut answers "nochange" if the time was up before, and the queue has said nothing of the job since.
func (w *waitCall) timedOut(ctx actor.Context) {
	if !w.expired {
		w.expire(ctx)
		return
	}
	w.unsubscribe(ctx)
	w.Succeed(ctx, "nochange")
}

func (w *waitCall) answerCurrent(ctx actor.Context) {
	w.unsubscribe(ctx)
	w.Succeed(ctx, w.current)
}

func (w *waitCall) failLost(ctx actor.Context) {
	w.unsubscribe(ctx)
	w.Fail(ctx, messages.JobLostFailure("Can't load job file"))
}

// unsubscribe ends the subscription before an answer. The client keeps nothing of the wait, whose last state may be large.
func (w *waitCall) unsubscribe(ctx actor.Context) {
	w.client.wait = nil
	if w.observed {
		w.observed = false
		w.endObservedWait(ctx)
	}
	ctx.Request(w.Config.Queue, &messages.UnsubscribeJob{Id: int64(w.id)})
}
