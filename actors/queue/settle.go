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

// readTries is how often a job file that cannot be read is read again before the
// queue goes on without it; the pauses double from readPause, 13 s together.
const (
	readTries = 8
	readPause = 50 * time.Millisecond
)

// readAgain is due some time after job files could not be read.
type readAgain struct{ incarnation uint32 }

// settle makes what was read fit to go on with. Files that could not be read are
// read again: the job of one that is left out may be running, without anybody
// who watches it, and without its slot being counted.
func (q *queue) settle(ctx actor.Context, serial int64, jobs []*messages.ScannedJob, tries int) {
	unread := func(s *messages.ScannedJob) bool { return s.Failure != nil }
	if tries == readTries || !slices.ContainsFunc(jobs, unread) {
		q.setCutOffAside(ctx, serial, jobs)
		return
	}
	q.recovery.again = func(ctx actor.Context) { q.readUnread(ctx, serial, jobs, tries+1) }
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), readPause<<tries, ctx.Self(), &readAgain{q.incarnation})
}

func (q *queue) readUnread(ctx actor.Context, serial int64, jobs []*messages.ScannedJob, tries int) {
	left := 0
	for i, s := range jobs {
		if s.Failure == nil {
			continue
		}
		left++
		q.readJob(ctx, s.Id, func(ctx actor.Context, s *messages.ScannedJob) {
			jobs[i] = s
			left--
			if left == 0 {
				present := slices.DeleteFunc(jobs, func(s *messages.ScannedJob) bool { return s == nil })
				q.settle(ctx, serial, present, tries)
			}
		})
	}
}

// readJob reads a job's file and what lies beside it; nil: somebody has removed it
// meanwhile.
func (q *queue) readJob(ctx actor.Context, id int64, done func(actor.Context, *messages.ScannedJob)) {
	q.store.Read(ctx, "scan-job", paths.JobPath(id), func(ctx actor.Context, m *messages.FileRead) {
		s := &messages.ScannedJob{Id: id, Content: m.Content, Failure: m.Failure}
		switch {
		case m.Missing:
			done(ctx, nil)
		case m.Failure != nil:
			done(ctx, s)
		default:
			q.store.Read(ctx, "scan-record", paths.RecordPath(id), func(ctx actor.Context, m *messages.FileRead) {
				s.Record, s.Failure = m.Content, m.Failure
				done(ctx, s)
			})
		}
	})
}

// setCutOffAside moves what belongs to submissions that nobody was told of out
// of the way, before anything else: the next serial would make jobs of it.
func (q *queue) setCutOffAside(ctx actor.Context, serial int64, jobs []*messages.ScannedJob) {
	recorded, left := []*messages.ScannedJob{}, 0
	for _, s := range jobs {
		if s.Id <= serial {
			recorded = append(recorded, s)
			continue
		}
		left++
		q.setAside(ctx, s, "it belongs to a submission that was cut off before anyone was told of it",
			func(ctx actor.Context, f *messages.Failure) {
				if f != nil {
					panic(fmt.Errorf("set a cut-off submission aside: %w", f))
				}
				left--
				if left == 0 {
					q.recovered(ctx, serial, recorded)
				}
			})
	}
	if left == 0 {
		q.recovered(ctx, serial, recorded)
	}
}
