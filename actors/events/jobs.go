package events

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/answer"
	"lockstep/core/query"
	"lockstep/messages"
)

// summaryMax is the maximum number of opcode summaries in an event, which keeps events
// short.
const summaryMax = 8

// jobEvent is an event about a job, with its state now. Each time is there twice: in
// microseconds and in RFC 3339.
type jobEvent struct {
	ID           int64     `json:"id"`
	Name         string    `json:"name,omitempty"`
	Result       string    `json:"result,omitempty"` // end of the job in words
	Status       string    `json:"status"`
	Priority     int32     `json:"priority"`
	Summary      []string  `json:"summary"` // of the first summaryMax opcodes
	Opcodes      int       `json:"opcodes"` // number of opcodes
	Received     *[2]int64 `json:"received_ts"`
	ReceivedTime *string   `json:"received"`
	Start        *[2]int64 `json:"start_ts"`
	StartTime    *string   `json:"start"`
	End          *[2]int64 `json:"end_ts"`
	EndTime      *string   `json:"end"`

	Try     *answer.Try `json:"try,omitempty"`    // as in answer.ListedJob
	Due     *[2]int64   `json:"due_ts,omitempty"` // when a pending job may start
	DueTime *string     `json:"due,omitempty"`
}

// archivedEvent is an event about a job that was archived.
type archivedEvent struct {
	ID       int64 `json:"id"`
	Archived bool  `json:"archived"`
}

func (e *events) jobStatesChanged(ctx actor.Context, m *messages.JobStatesChanged) {
	for _, info := range m.Jobs {
		e.publish(ctx, Jobs, jobEvent{
			ID: info.Id, Name: info.Name, Result: info.Result, Status: query.ClientStatus(info).String(), Priority: info.Priority,
			Summary: info.Summary[:min(len(info.Summary), summaryMax)], Opcodes: len(info.Summary),
			Received: stamp(info.ReceivedUs), Start: stamp(info.StartUs), End: stamp(info.EndUs),
			ReceivedTime: rfc3339(info.ReceivedUs), StartTime: rfc3339(info.StartUs), EndTime: rfc3339(info.EndUs),
			Try: query.TryOf(info.Try), Due: stamp(info.DueUs), DueTime: rfc3339(info.DueUs),
		})
		if query.StatusOf(info).Final() {
			e.config.Feed.Ended(end(info))
		}
	}
	if m.EndedTries > 0 {
		e.config.Feed.TriesEnded(m.EndedTries)
	}
	for _, id := range m.Archived {
		e.publish(ctx, Jobs, archivedEvent{ID: id, Archived: true})
	}
}

// end is the end of a job. Durations are never negative, although the clock may have been
// set back.
func end(info *messages.JobInfo) End {
	e := End{Status: query.StatusOf(info).String(), Started: info.StartUs != 0}
	if e.Started {
		e.Waited = max(0, time.Duration(info.StartUs-max(info.ReceivedUs, info.AtUs))*time.Microsecond)
		e.Ran = max(0, time.Duration(info.EndUs-info.StartUs)*time.Microsecond)
	}
	return e
}

func stamp(us int64) *[2]int64 {
	if us == 0 {
		return nil
	}
	return &[2]int64{us / 1e6, us % 1e6}
}

func rfc3339(us int64) *string {
	if us == 0 {
		return nil
	}
	text := time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
	return &text
}
