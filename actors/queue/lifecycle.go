package queue

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"lockstep/actors/kit"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

// pick gives a job that the scheduler has chosen to the jobs actor. If the job is not pending any longer, its run slot is released; a job
// that is held or paused, or not due, meanwhile becomes a candidate again. It does nothing for a job that is active already, and while the
// daemon is stopping.
func (q *queue) pick(ctx actor.Context, id int64) {
	if q.admission.stopping != nil {
		return
	}
	e := q.index.get(id)
	if e != nil && e.stage == active {
		return // picked before and after a rewrite: the run slot is in use
	}
	if e == nil || e.stage != pending {
		ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
		return
	}
	notDue := e.info.DueUs > q.config.Env.Clock().Now().UnixMicro()
	if _, held := q.holds.inForce[id]; held || notDue || q.verdicts.verb(id) == filter.Pause {
		// The scheduler chose the job before it received the rule, the hold or the new time, but the
		// author may know already that it is in force.
		ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: id})
		q.enqueue(ctx, e)
		return
	}
	// From here on the jobs actor alone writes the file, until JobEnded or JobReturned: orders about the job go there.
	q.index.setStage(e, active)
	start := &messages.StartJob{Id: id, Encoded: e.info.Encoded}
	q.launcher.launch(start, q.retained.secrets[id], q.records.get(id))
	ctx.Send(q.config.Jobs, start)
}

// progress takes the content of the file of an active job, and the progress of its command. A report about a job that
// has ended is ignored. The content stays in memory even if the job is final, for the
// jobs actor may have to adopt the job.
func (q *queue) progress(ctx actor.Context, m *messages.JobProgressed) {
	id, encoded := m.Id, m.Encoded
	e := q.index.get(id)
	switch {
	case e == nil || e.stage != active:
		return
	case len(encoded) == 0:
		q.index.setInfo(e, withProgress(e.info, m.Progress))
		q.notifyOfProgress(ctx, e.info)
		return
	}
	j, err := job.Decode(encoded)
	if err != nil {
		// The file is read at the end of the job, so that the report may be dropped.
		q.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": err}).Warn("a report of a job process is not a job; the report is dropped")
		return
	}
	former := e.info
	info := q.nextInfo(e, j, encoded)
	info.Encoded, info.Progress = encoded, m.Progress
	q.index.setInfo(e, info)
	if info.Priority != former.Priority {
		ctx.Send(q.config.Scheduler, &messages.PriorityChanged{Id: id, Priority: info.Priority})
	}
	if next := j.FirstUnfinished(); q.config.GanetiJobs && next > 0 { // its process asks before no opcode
		ctx.Request(q.config.Filters, &messages.ReachOp{Id: id, Op: int32(next)})
	}
	q.notifySubscribers(ctx, info, encoded)
	if !proto.Equal(info.Progress, former.Progress) {
		q.notifyOfProgress(ctx, info)
	}
}

// withProgress is the info with the progress of the job's command; nil: none. It shares the rest, such as the content of the file.
func withProgress(info *messages.JobInfo, p *messages.CommandProgress) *messages.JobInfo {
	next := &messages.JobInfo{}
	info.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		next.ProtoReflect().Set(field, value)
		return true
	})
	next.Progress = p
	return next
}

func (q *queue) ended(ctx actor.Context, m *messages.JobEnded) {
	e := q.index.get(m.Id)
	if e == nil {
		q.unknownEnded(ctx, m)
		return
	}
	if e.stage != active {
		return
	}
	j, err := job.Decode(m.Encoded)
	if err != nil || !j.Status().Final() {
		panic("the jobs actor ended a job that is not final") // it has written or read that file
	}
	q.index.setInfo(e, q.nextInfo(e, j, m.Encoded))
	q.finish(ctx, e, m.Encoded)
}

// unknownEnded takes the end of a job that is not in the index. It is archived, or its file was removed by hand before this queue read the
// directory: then the job's actor, which knew the job, has written its file again.
func (q *queue) unknownEnded(ctx actor.Context, m *messages.JobEnded) {
	q.readJob(ctx, m.Id, func(ctx actor.Context, s *messages.ScannedJob) {
		if s == nil || s.Failure != nil || q.index.get(m.Id) != nil {
			return
		}
		q.recoverJob(ctx, s, true)
		if q.index.get(m.Id) != nil {
			q.ended(ctx, m)
		}
	})
}

// awaitCleanup answers at once for a job that is not active: it has no process. For an
// active job the lock manager receives JobCleanedUp at its end, for which its process is probed now.
func (q *queue) awaitCleanup(ctx actor.Context, sender *actor.PID, m *messages.AwaitJobCleanup) {
	if e := q.index.get(m.Id); e == nil || e.stage != active {
		ctx.Send(sender, &messages.JobCleanedUp{Id: m.Id})
		return
	}
	ctx.Send(q.config.Jobs, m)
}

// returned makes an active job pending whose process has ended before it acted.
func (q *queue) returned(ctx actor.Context, m *messages.JobReturned) {
	e := q.index.get(m.Id)
	if e == nil || e.stage != active {
		return
	}
	if len(m.Encoded) > 0 {
		q.index.setInfo(e, q.nextInfo(e, decodeKnown(m.Id, m.Encoded), m.Encoded))
	}
	// The scheduler takes the slot back before it gets the job as a candidate: it ignores one that runs.
	ctx.Send(q.config.Scheduler, &messages.JobReleased{Id: m.Id})
	q.showStartWait(ctx, e, messages.StartWait_NOT_WAITING)
	if m.RetryAfterMs == 0 {
		q.enqueue(ctx, e)
		return
	}
	q.index.setStage(e, pending)
	q.retried++
	q.retries[m.Id] = q.retried
	kit.SendAfter(q.config.Env.Clock(), ctx.ActorSystem(), time.Duration(m.RetryAfterMs)*time.Millisecond, ctx.Self(),
		&retryDue{q.incarnation, m.Id, q.retried})
}

// retryDue is the timer message after a job has returned that is not to be started at once. Those of an earlier incarnation, and for a job
// that the scheduler has got meanwhile, are ignored.
type retryDue struct {
	incarnation uint32
	id          int64
	number      uint64
}

func (q *queue) retryStart(ctx actor.Context, m *retryDue) {
	if e := q.index.get(m.id); m.incarnation == q.incarnation && q.retries[m.id] == m.number && e != nil && e.stage == pending {
		q.enqueue(ctx, e)
	}
}

// sendUnfinishedJobs sends all pending and active jobs to a scheduler that has started,
// when the verdicts on all jobs are known.
func (q *queue) sendUnfinishedJobs(ctx actor.Context, request uint64) {
	if !q.verdicts.complete {
		q.verdicts.scheduler = request
		return
	}
	clear(q.retries)
	p := &messages.ListUnfinishedJobsResult{Request: request}
	for _, e := range q.index.all() {
		w := q.asUnfinished(e)
		switch e.stage {
		case pending:
			p.Pending = append(p.Pending, w)
		case active:
			p.Active = append(p.Active, w)
		}
	}
	ctx.Send(q.config.Scheduler, p)
}

// adoptAll gives all active jobs to a jobs actor that has started.
func (q *queue) adoptAll(ctx actor.Context) {
	for _, info := range q.index.activeJobs() {
		ctx.Send(q.config.Jobs, q.launcher.adopt(decodeKnown(info.Id, info.Encoded), info.Encoded, q.records.get(info.Id)))
	}
}

// enqueue makes a job pending and gives it to the scheduler.
func (q *queue) enqueue(ctx actor.Context, e *entry) {
	delete(q.retries, e.info.Id)
	q.index.setStage(e, pending)
	if w := q.unfinishedJob(ctx, e); w != nil {
		ctx.Send(q.config.Scheduler, &messages.EnqueueJobs{Jobs: []*messages.UnfinishedJob{w}})
	}
}

// finish makes a job final, drops what only unfinished jobs have, and tells its
// subscribers, the lock manager, the filter engine and the scheduler.
func (q *queue) finish(ctx actor.Context, e *entry, encoded []byte) {
	id := e.info.Id
	released := &messages.JobReleased{Id: id, Ended: true, Status: e.info.Status}
	if e.stage == active {
		released.Encoded = encoded
		// The end is on the disk and no process is left. Freed earlier, the job's locks could go to another job beside an orphan of this one.
		ctx.Send(q.config.Locks, &messages.JobCleanedUp{Id: id})
	}
	q.records.ended(id)
	q.admission.unfinished--
	delete(q.retained.secrets, id)
	delete(q.holds.inForce, id)
	delete(q.retries, id)
	q.index.setStage(e, final)
	q.retain(e)
	q.notifySubscribers(ctx, e.info, encoded)
	q.subscribers.ended(id)
	q.forgetVerdict(ctx, id)
	ctx.Send(q.config.Scheduler, released)
}
