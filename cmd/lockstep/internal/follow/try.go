package follow

import (
	"context"
	"slices"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/why"
)

// NextTry is a job whose last try has failed and which is tried again.
type NextTry struct {
	answer.Try
	Due time.Time // when the next try may begin
}

// AskNextTry asks whether a job waits for another try; nil: it does not, or the daemon does not answer.
func AskNextTry(ctx context.Context, daemon client.Querier, id int64) *NextTry {
	var list answer.JobList
	if daemon.Query(ctx, "LockstepListJobs", []any{answer.JobSelection{IDs: []int64{id}}}, &list) != nil || len(list.Jobs) != 1 {
		return nil
	}
	j := list.Jobs[0]
	if j.Try == nil || j.Due == nil || j.Try.Number < 2 {
		return nil
	}
	return &NextTry{*j.Try, j.Due.Time}
}

// Text is the end of the last try and the next one: "exit 75; try 2 of 3 in 10s".
func (t *NextTry) Text(now time.Time) string {
	return t.Last + "; " + why.Due(&t.Try, t.Due, now)
}

// asksNextTry returns a function that says which try comes next if the log of a change says that one has ended. It asks on another
// connection of the session.
func asksNextTry(ctx context.Context, session *client.Session, id int64) func(Change) *NextTry {
	return func(c Change) *NextTry {
		if client.Final(c.Status) || !slices.ContainsFunc(c.Entries, func(e LogEntry) bool { return typeOf(e) == job.LogTry }) {
			return nil
		}
		daemon := session.Other() // the session waits for a change of the job
		defer daemon.Close()
		return AskNextTry(ctx, daemon, id)
	}
}

// event is the event of a try that has ended.
func (t *NextTry) event(id int64) Event {
	due := client.Timestamp{Time: t.Due}
	return Event{Event: "try", Job: id, Try: t.Number, Tries: t.Most, Last: t.Last, Due: &due}
}

// TryEvent is the form of the event of a try that has ended, and TryEventHelp describes it.
const (
	TryEvent     = `{"event": "try", "job", "try", "tries", "last", "due"}`
	TryEventHelp = `A try that has failed, and after which another one follows (run --retry), has the
event "try": "try" is the number of the next one, of "tries" at most, "last" the
end of the last one in words, and "due" the time when the next one may begin.`
)
