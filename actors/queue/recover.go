package queue

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// recovery is the state of an incarnation that has not read the disk yet. It
// holds what others ask meanwhile.
type recovery struct {
	active  *messages.ListActiveJobsResult // nil: not known yet
	drained bool
	retry   func(actor.Context) // after a pause, see readAgain
	// onConfig goes on when the configuration is known; nil: it is not waited for.
	onConfig func(actor.Context)
	deferred []deferredMessage
}

type deferredMessage struct {
	message any
	sender  *actor.PID
}

// deferMessage keeps a message for later; those that recovery itself waits for, and the
// framework's, pass.
func (q *queue) deferMessage(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse, *messages.ListActiveJobsResult, *messages.ConfigPublished:
		return false
	case *rereadDue:
		if m.incarnation == q.incarnation {
			q.recovery.retry(ctx)
		}
	case *messages.EvaluateFiltersResult, *messages.VerdictsChanged:
		// About the jobs of a former incarnation. The filter engine asks for all
		// of them again when it hears that there is another.
	case *messages.JobsActorStarted:
		if q.recovery.active == nil {
			q.requestActiveJobs(ctx) // the question may have died with the former incarnation
		}
		q.recovery.deferred = append(q.recovery.deferred, deferredMessage{m, ctx.Sender()})
	default:
		q.recovery.deferred = append(q.recovery.deferred, deferredMessage{m, ctx.Sender()})
	}
	return true
}

// recover asks the jobs actor for the active jobs, for one in the middle
// of its start is queued on the disk; then the disk for all jobs. The other way
// round, a job that starts or ends in between would be seen as it was before,
// and run twice; whatever is not active when the disk is read stays as it is.
func (q *queue) recover(ctx actor.Context) {
	q.recovery = &recovery{}
	q.store.Connect(ctx)
	q.requestActiveJobs(ctx)
	ctx.Request(q.config.ClusterConfig, &messages.PublishConfig{})
}

func (q *queue) requestActiveJobs(ctx actor.Context) {
	ctx.Request(q.config.Jobs, &messages.ListActiveJobs{Request: uint64(q.incarnation)})
}

func (q *queue) activeJobsListed(ctx actor.Context, m *messages.ListActiveJobsResult) {
	if q.recovery == nil || q.recovery.active != nil || m.Request != uint64(q.incarnation) {
		return
	}
	q.recovery.active = m
	q.store.Scan(ctx, func(ctx actor.Context, m *messages.ScanQueueResult) {
		if m.Failure != nil {
			panic(fmt.Errorf("read the queue directory: %w", m.Failure))
		}
		serial, err := paths.ParseSerial(m.Serial)
		if err != nil {
			panic(fmt.Errorf("%s: %w: write the highest job id in use into it", paths.SerialPath, err))
		}
		q.recovery.drained = m.Drained
		q.clearOrphanRecords(ctx, serial, m.Orphans, func(ctx actor.Context) { q.rereadFailed(ctx, serial, slices.Clone(m.Jobs), 0) })
	})
}

func (q *queue) recovered(ctx actor.Context, serial int64, jobs []*messages.ScannedJob) {
	r := q.recovery
	if q.resources == nil {
		r.onConfig = func(ctx actor.Context) { q.recovered(ctx, serial, jobs) }
		return
	}
	q.serial, q.recorded, q.drained, q.recovery = serial, serial, r.drained, nil
	activeJobs := make(map[int64]bool, len(r.active.Ids))
	for _, id := range r.active.Ids {
		activeJobs[id] = true
	}
	for _, s := range jobs {
		q.recoverJob(ctx, s, activeJobs[s.Id])
	}
	q.config.Env.Log().WithFields(logrus.Fields{"jobs": len(q.order), "serial": serial}).Info("queue is ready")
	for _, pid := range q.config.Gateways {
		ctx.Send(pid, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	}
	ctx.Send(q.config.Filters, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	ctx.Send(q.config.Locks, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	ctx.Request(q.config.Scheduler, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	q.recordArchived(ctx)
	for _, h := range r.deferred {
		q.handle(ctx, h.message, h.sender)
	}
}

func (q *queue) recoverJob(ctx actor.Context, s *messages.ScannedJob, isActive bool) {
	if s.Failure != nil {
		q.config.Env.Log().WithFields(logrus.Fields{"job": s.Id, "err": s.Failure.Text}).Error("a job file cannot be read; the job is not known until the daemon is started again and can")
		return
	}
	j, err := job.Decode(s.Content)
	if err == nil && int64(j.ID) != s.Id {
		err = fmt.Errorf("the file holds job %d", j.ID)
	}
	if err == nil && len(j.Ops) == 0 && j.Livelock != "" {
		err = fmt.Errorf("a job without opcodes that has a process")
	}
	if err != nil {
		q.quarantineJob(ctx, s, err.Error(), func(actor.Context, *messages.Failure) {})
		return
	}
	info := q.newInfo(j, s.Content)
	if len(j.Ops) > 0 {
		q.submissions.add(job.SubmissionName(j.Ops[0].Input), s.Id)
	}
	if isActive || !j.Status().Final() {
		q.unfinished++
	}
	var e *entry
	switch {
	case isActive:
		// Also one that is final: its process may not be gone, and until the
		// jobs actor says so its file must stay where it is.
		info.Encoded = s.Content
		e = q.putEntry(info, active)
	case j.Status().Final():
		e = q.putEntry(info, final)
	case j.Status() == job.Queued && !paths.IsJobLivelock(j.Livelock):
		e = q.putEntry(info, pending)
	default:
		e = q.putEntry(info, active)
		ctx.Send(q.config.Jobs, &messages.AdoptJob{Id: s.Id, Encoded: s.Content})
	}
	q.recoverRecord(ctx, e, j, s.Record)
}

// recoverRecord takes what lies beside a job's file. What is no record is set aside:
// the job goes on without it.
func (q *queue) recoverRecord(ctx actor.Context, e *entry, j *job.Job, content []byte) {
	var r record.Record
	if content != nil {
		var err error
		if r, err = record.Decode(content); err != nil {
			q.quarantineFile(ctx, e.info.Id, paths.RecordPath(e.info.Id), err.Error(), func(actor.Context, *messages.Failure) {})
		}
	}
	q.putRecord(e, dependenciesOf(j), r)
	e.recorded = content != nil
	if e.stage == final {
		q.dropDependencies(e)
	}
}

// quarantineJob moves a job file that cannot be used to the quarantine, and says so; with
// it what lies beside it.
func (q *queue) quarantineJob(ctx actor.Context, s *messages.ScannedJob, reason string, done func(actor.Context, *messages.Failure)) {
	q.quarantineFile(ctx, s.Id, paths.JobPath(s.Id), reason, func(ctx actor.Context, f *messages.Failure) {
		if f != nil || s.Record == nil {
			done(ctx, f)
			return
		}
		q.quarantineFile(ctx, s.Id, paths.RecordPath(s.Id), reason, done)
	})
}

func (q *queue) quarantineFile(ctx actor.Context, id int64, file, reason string, done func(actor.Context, *messages.Failure)) {
	log := q.config.Env.Log().WithFields(logrus.Fields{"job": id, "why": reason})
	q.store.Quarantine(ctx, file, func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			log.WithField("err", m.Failure.Text).Error("a job file cannot be used, nor moved to the quarantine")
		} else {
			q.quarantined = append(q.quarantined, m.Path)
			log.WithField("path", m.Path).Error("a job file was moved to the quarantine")
		}
		done(ctx, m.Failure)
	})
}
