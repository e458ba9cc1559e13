package queue

import (
	"errors"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/kit"
	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// recovery is the state of an incarnation that is reading the disk. Other messages are
// deferred until it is over.
type recovery struct {
	// active is the answer of the jobs actor; nil until it arrives. The disk is read after it.
	active *messages.ListActiveJobsResult
	// drained is whether the drain flag was on the disk.
	drained bool
	// retry reads again the job files that could not be read. It is set while a rereadDue
	// of this incarnation is on its way.
	retry func(actor.Context)
	// onConfig continues when the first configuration has arrived; nil unless that is the
	// only thing that is missing.
	onConfig func(actor.Context)
	deferred kit.Deferred[any] // in order of arrival
}

// deferMessage keeps a message until the end of the recovery. It returns false for
// messages that the recovery waits for and for those of the framework.
func (q *queue) deferMessage(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse,
		*messages.ListActiveJobsResult, *clusterconfig.ConfigPublished:
		return false
	case *rereadDue:
		if m.incarnation == q.incarnation {
			q.recovery.retry(ctx)
		}
	case *messages.EvaluateFiltersResult, *messages.VerdictsChanged:
		// These are about the jobs of a former incarnation. The filter engine sends
		// FiltersStarted when it receives QueueStarted, and is asked about all jobs again.
	case *messages.JobTryEnded:
		// The file says nothing of this yet. Without the answer of the jobs actor the job is not among its active ones: it gets the job
		// again, to adopt, and reports the try again.
		if q.recovery.active != nil {
			q.recovery.deferred.Add(m, ctx.Sender())
		}
	case *messages.JobsActorStarted:
		if q.recovery.active == nil {
			q.requestActiveJobs(ctx) // the former jobs actor may not have answered
		}
		q.recovery.deferred.Add(m, ctx.Sender())
	default:
		q.recovery.deferred.Add(m, ctx.Sender())
	}
	return true
}

// recover asks the jobs actor for the active jobs, since a job that is being started is
// queued on the disk; after the answer it reads the disk. In the other order, a job
// that starts or ends between the two answers would be seen in its former status, and
// would run twice. A job that is not active when the disk is read does not change
// before the queue changes it.
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
		q.takeBackFirings(ctx, serial, func(ctx actor.Context) {
			q.clearOrphanRecords(ctx, serial, m.Orphans, func(ctx actor.Context) { q.rereadFailed(ctx, serial, slices.Clone(m.Jobs), 0) })
		})
	})
}

// recovered builds the index from the files up to the serial, tells the other actors
// that the queue has started, and handles the deferred messages. It waits for the
// first configuration.
func (q *queue) recovered(ctx actor.Context, serial int64, jobs []*messages.ScannedJob) {
	r := q.recovery
	if q.launcher.resources == nil {
		r.onConfig = func(ctx actor.Context) { q.recovered(ctx, serial, jobs) }
		return
	}
	q.submissions.serial, q.submissions.recorded, q.admission.drained, q.recovery = serial, serial, r.drained, nil
	activeJobs := make(map[int64]bool, len(r.active.Ids))
	for _, id := range r.active.Ids {
		activeJobs[id] = true
	}
	for _, s := range jobs {
		q.recoverJob(ctx, s, activeJobs[s.Id])
	}
	q.fillKeeper(ctx)
	q.config.Env.Log().WithFields(logrus.Fields{"jobs": len(q.index.jobs), "serial": serial}).Info("queue is ready")
	// Announced when the index is complete: the other actors ask for all jobs at once.
	kit.Publish(ctx, append(slices.Clone(q.config.Gateways), q.config.Filters, q.config.Locks),
		&messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	ctx.Request(q.config.Scheduler, &messages.QueueStarted{Incarnation: uint64(q.incarnation)})
	q.recordArchived(ctx)
	// Last: they meet the queue as if they had come now.
	r.deferred.HandleAll(ctx, q.handle)
}

// recoverJob adds a job to the index as final, pending or active, or quarantines its file if that is not the job. A job that may have a
// process is given to the jobs actor. A file that cannot be read is left alone.
func (q *queue) recoverJob(ctx actor.Context, s *messages.ScannedJob, isActive bool) {
	if s.Failure != nil {
		q.config.Env.Log().WithFields(logrus.Fields{"job": s.Id, "err": s.Failure.Text}).
			Error("a job file cannot be read; the queue goes on without the job until the next start of the daemon")
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
	r := q.recoverRecord(ctx, s, j, j.Status().Final() && !isActive)
	info := q.newInfo(j, s.Content, r)
	if len(j.Ops) > 0 {
		q.submissions.named.add(q.submissionName(j.Ops[0].Input, r.Submitter()), s.Id)
	}
	if isActive || !j.Status().Final() {
		q.admission.unfinished++
	}
	switch {
	case isActive:
		// A job with a final status may be active: its process may not be gone. The file
		// stays in the queue directory until the jobs actor reports the end.
		info.Encoded = s.Content
		q.index.put(info, active)
	case j.Status().Final():
		q.index.put(info, final)
	// No process was ever named durably, so that none had the permission to act: the job may start.
	case j.IsPending() && !paths.IsJobLivelock(j.Livelock):
		q.index.put(info, pending)
	// A process may be alive. The jobs actor finds out, and ends the job if none is.
	default:
		q.index.put(info, active)
		ctx.Send(q.config.Jobs, q.launcher.adopt(j, s.Content, r))
	}
	q.records.put(s.Id, dependenciesOf(j), r)
	if s.Record != nil {
		q.records.foundFile(s.Id)
	}
	if q.index.get(s.Id).stage == final {
		q.records.ended(s.Id)
		return
	}
	if h, held := r.Hold(); held {
		q.holds.inForce[s.Id] = h
	}
}

// recoverRecord decodes the record of a job. A file that is no record does not say whose job it is, and neither does one that is lost, if
// the job says that it had a submitter. Such a job, unless it has ended, gets the record of an unknown submitter, and its commands do not
// run. The file stays until the end of the job, because without it the next daemon could take the job for one of its own user. That of an
// ended job is quarantined.
func (q *queue) recoverRecord(ctx actor.Context, s *messages.ScannedJob, j *job.Job, ended bool) (r record.Record) {
	var err error
	switch {
	case s.Record != nil:
		r, err = record.Decode(s.Record)
	case !ended && j.NamesSubmitter():
		err = errors.New("the file is lost")
	}
	switch {
	case err == nil:
	case ended:
		q.quarantineFile(ctx, s.Id, paths.RecordPath(s.Id), err.Error(), func(actor.Context, *messages.Failure) {})
	default:
		q.config.Env.Log().WithFields(logrus.Fields{"job": s.Id, "reason": err.Error()}).
			Error("the record of a job cannot be used, so it is not known who has submitted the job")
		r = record.Record{}.WithSubmitter(access.Unknown().Submitter().Encode())
	}
	return r
}

// quarantineJob quarantines a job file and the job record, if there is one.
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
	log := q.config.Env.Log().WithFields(logrus.Fields{"job": id, "reason": reason})
	q.store.Quarantine(ctx, file, func(ctx actor.Context, m *messages.QuarantineFileResult) {
		if m.Failure != nil {
			log.WithField("err", m.Failure.Text).Error("a file of a job cannot be used, and cannot be quarantined")
		} else {
			q.quarantined = append(q.quarantined, m.Path)
			log.WithField("path", m.Path).Error("a file of a job was quarantined")
		}
		done(ctx, m.Failure)
	})
}
