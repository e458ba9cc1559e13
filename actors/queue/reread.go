package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/kit"
	"lockstep/core/paths"
	"lockstep/messages"
)

// rereadLimit is how often a job file that cannot be read is read again, before the
// queue continues without it. The pauses double from rereadPause; their sum is 13 s.
const (
	rereadLimit = 8
	rereadPause = 50 * time.Millisecond
)

// rereadDue is the timer message after job files could not be read. The message of
// an earlier incarnation is ignored.
type rereadDue struct{ incarnation uint32 }

// rereadFailed continues the recovery with the files that were read, after a pause in
// which files that could not be read may become readable. tries counts the pauses. A
// job that is left out may have a process, which would then run unwatched and without
// a run slot.
func (q *queue) rereadFailed(ctx actor.Context, serial int64, jobs []*messages.ScannedJob, tries int) {
	unread := func(s *messages.ScannedJob) bool { return s.Failure != nil }
	if tries == rereadLimit || !slices.ContainsFunc(jobs, unread) {
		q.quarantineUncommitted(ctx, serial, jobs)
		return
	}
	q.recovery.retry = func(ctx actor.Context) { q.rereadOnce(ctx, serial, jobs, tries+1) }
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), rereadPause<<tries, ctx.Self(), &rereadDue{q.incarnation})
}

// rereadOnce reads again, in parallel, the files that could not be read. When all are read, rereadFailed decides about the rest. Files
// that are gone are left out.
func (q *queue) rereadOnce(ctx actor.Context, serial int64, jobs []*messages.ScannedJob, tries int) {
	remaining := 0
	for i, s := range jobs {
		if s.Failure == nil {
			continue
		}
		remaining++
		q.readJob(ctx, s.Id, func(ctx actor.Context, s *messages.ScannedJob) {
			jobs[i] = s
			remaining--
			if remaining == 0 {
				present := slices.DeleteFunc(jobs, func(s *messages.ScannedJob) bool { return s == nil })
				q.rereadFailed(ctx, serial, present, tries)
			}
		})
	}
}

// readJob reads a job's file and record. done receives nil if the job file does not
// exist any longer.
func (q *queue) readJob(ctx actor.Context, id int64, done func(actor.Context, *messages.ScannedJob)) {
	q.store.Read(ctx, "scan-job", paths.JobPath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
		s := &messages.ScannedJob{Id: id, Content: m.Content, Failure: m.Failure}
		switch {
		case m.Missing:
			done(ctx, nil)
		case m.Failure != nil:
			done(ctx, s)
		default:
			q.store.Read(ctx, "scan-record", paths.RecordPath(id), func(ctx actor.Context, m *messages.ReadFileResult) {
				s.Record, s.Failure = m.Content, m.Failure
				done(ctx, s)
			})
		}
	})
}

// quarantineUncommitted quarantines the job files above the serial: no client has
// received their ids, and the next serial would turn them into jobs. Then it continues
// the recovery.
func (q *queue) quarantineUncommitted(ctx actor.Context, serial int64, jobs []*messages.ScannedJob) {
	recorded, remaining := []*messages.ScannedJob{}, 0
	for _, s := range jobs {
		if s.Id <= serial {
			recorded = append(recorded, s)
			continue
		}
		remaining++
		q.quarantineJob(ctx, s, "the file belongs to a submission without a commit record",
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					panic(fmt.Errorf("quarantine a submission without a commit record: %w", f))
				}
				remaining--
				if remaining == 0 {
					q.recovered(ctx, serial, recorded)
				}
			})
	}
	if remaining == 0 {
		q.recovered(ctx, serial, recorded)
	}
}
