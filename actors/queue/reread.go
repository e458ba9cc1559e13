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

// rereadLimit is how often a job file that cannot be read is read again before the
// queue goes on without it; the pauses double from readPause, 13 s together.
const (
	rereadLimit = 8
	rereadPause = 50 * time.Millisecond
)

// rereadDue is due some time after job files could not be read.
type rereadDue struct{ incarnation uint32 }

// rereadFailed makes what was read fit to go on with. Files that could not be read are
// read again: the job of one that is left out may be running, without anybody
// who watches it, and without its slot being counted.
func (q *queue) rereadFailed(ctx actor.Context, serial int64, jobs []*messages.ScannedJob, tries int) {
	unread := func(s *messages.ScannedJob) bool { return s.Failure != nil }
	if tries == rereadLimit || !slices.ContainsFunc(jobs, unread) {
		q.quarantineUncommitted(ctx, serial, jobs)
		return
	}
	q.recovery.retry = func(ctx actor.Context) { q.rereadOnce(ctx, serial, jobs, tries+1) }
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), rereadPause<<tries, ctx.Self(), &rereadDue{q.incarnation})
}

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

// readJob reads a job's file and what lies beside it; nil: somebody has removed it
// meanwhile.
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

// quarantineUncommitted moves what belongs to submissions that nobody was told of out
// of the way, before anything else: the next serial would make jobs of it.
func (q *queue) quarantineUncommitted(ctx actor.Context, serial int64, jobs []*messages.ScannedJob) {
	recorded, remaining := []*messages.ScannedJob{}, 0
	for _, s := range jobs {
		if s.Id <= serial {
			recorded = append(recorded, s)
			continue
		}
		remaining++
		q.quarantineJob(ctx, s, "it belongs to a submission that was cut off before anyone was told of it",
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					panic(fmt.Errorf("set a cut-off submission aside: %w", f))
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
