package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/kit"
	"lockstep/core/config"
	"lockstep/core/retention"
)

// The queue archives due jobs in pieces: one batch a tick, and the next tick is soon if there may be more.
const (
	retentionTick = 10 * time.Second
	retentionSoon = time.Second
)

// archiver archives jobs that ended some time ago.
type archiver struct {
	after    time.Duration     // from their end until jobs are archived; 0: never
	keepLast int               // of each name
	content  []byte            // of the settings' file
	keeper   *retention.Keeper // of the final jobs; nil while jobs are archived by clients only
	ticking  bool
	archived int64 // jobs that it has archived in this incarnation of the queue
	// halfway are the jobs that could not be moved to the archive. Their files may be there already, so each tick tries
	// them again, whatever the settings are by then. They are not in keeper.
	halfway map[int64]bool
}

// retentionDue is the timer message of the next tick.
type retentionDue struct{ incarnation uint32 }

// setRetention takes the settings, and their file. Only if those of the retention have changed does it look at all final jobs.
func (q *queue) setRetention(ctx actor.Context, settings config.Settings, content []byte) {
	a := &q.archiver
	after := settings.ArchiveAfter(q.config.ArchiveAfter)
	changed := after != a.after || settings.KeepLast != a.keepLast
	if a.after, a.keepLast, a.content = after, settings.KeepLast, content; changed {
		q.fillKeeper(ctx)
	}
}

// fillKeeper makes a new keeper of all final jobs, once the disk has been read.
func (q *queue) fillKeeper(ctx actor.Context) {
	if q.recovery != nil {
		return
	}
	a := &q.archiver
	if a.keeper = nil; a.after == 0 {
		return
	}
	a.keeper = retention.NewKeeper(a.keepLast)
	for _, e := range q.index.finals {
		q.retain(e)
	}
	q.scheduleRetention(ctx, retentionSoon)
}

// retain gives a job that has ended to the keeper, unless there is none or its archiving has begun.
func (q *queue) retain(e *entry) {
	if q.archiver.keeper != nil && !q.archiver.halfway[e.info.Id] {
		q.archiver.keeper.Add(q.endedJob(e))
	}
}

// movedHalfway makes a job that could not be moved to the archive due at each tick.
func (q *queue) movedHalfway(ctx actor.Context, e *entry) {
	a := &q.archiver
	if a.halfway == nil {
		a.halfway = map[int64]bool{}
	}
	a.halfway[e.info.Id] = true
	if a.keeper != nil {
		a.keeper.Forget(q.endedJob(e))
	}
	q.scheduleRetention(ctx, retentionTick)
}

// repeatTime is the time after a named submission for which its client may send it again: a client gives up after a minute of tries.
// The queue knows the name by the jobs that are not archived, so the retention leaves them in the queue for that time.
const repeatTime = 10 * time.Minute

// endedJob is what the keeper knows of a final job. The age of a job of a named submission counts from so late that the job is not due
// before repeatTime is over.
func (q *queue) endedJob(e *entry) retention.Job {
	end := max(e.info.EndUs, e.info.StartUs)
	from := end
	if q.submissions.named.names[e.info.Id].text != "" {
		from = max(end, e.info.ReceivedUs+(repeatTime-q.archiver.after).Microseconds())
	}
	return retention.Job{ID: e.info.Id, Name: e.info.Name, EndUs: end, FromUs: from}
}

func (q *queue) scheduleRetention(ctx actor.Context, delay time.Duration) {
	if !q.archiver.ticking {
		q.archiver.ticking = true
		kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), delay, ctx.Self(), &retentionDue{q.incarnation})
	}
}

// archiveDue archives one batch of due jobs. A daemon that stops archives none.
func (q *queue) archiveDue(ctx actor.Context, m *retentionDue) {
	if m.incarnation != q.incarnation {
		return
	}
	a := &q.archiver
	a.ticking = false
	if a.keeper == nil && len(a.halfway) == 0 || q.admission.stopping != nil {
		return
	}
	now := q.config.Env.Clock().Now()
	due := slices.Sorted(maps.Keys(a.halfway))
	due = due[:min(len(due), archiveBatch/2)] // other jobs are archived even if these never can be
	if a.keeper != nil {
		due = append(due, a.keeper.TakeDue(now.Add(-a.after), archiveBatch-len(due))...)
	}
	if len(due) == 0 {
		q.scheduleRetention(ctx, retentionTick)
		return
	}
	q.archiveNext(ctx, &archiving{deadline: now.Add(time.Hour), remaining: due, due: due})
}

// dueArchived ends a tick and starts the timer of the next one. Jobs that could not be archived become due again.
func (q *queue) dueArchived(ctx actor.Context, a *archiving) {
	q.archiver.archived += a.done
	if a.failure != nil {
		q.config.Env.Log().WithFields(logrus.Fields{"err": a.failure.Text}).Error("old jobs cannot be archived; archiving them is tried again")
	}
	for _, id := range a.due {
		if e := q.index.get(id); e != nil && e.stage == final {
			q.retain(e)
		}
	}
	delay := retentionTick
	if len(a.due) == archiveBatch && a.failure == nil {
		delay = retentionSoon
	}
	if q.archiver.keeper != nil || len(q.archiver.halfway) > 0 {
		q.scheduleRetention(ctx, delay)
	}
}
