package queue

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

func (q *queue) submit(ctx actor.Context, sender *actor.PID, m *messages.SubmitJobs) {
	name := q.nameOf(m)
	// Before the limits: a client that repeats an accepted submission gets its ids, also from a full or drained queue.
	if q.answerRepeated(ctx, sender, name, m) {
		return
	}
	if f := q.admission.refusal(m); f != nil {
		ctx.Send(sender, &messages.SubmitJobsResult{Request: m.Request, Failure: f})
		return
	}
	if len(m.Jobs) == 0 {
		ctx.Send(sender, &messages.SubmitJobsResult{Request: m.Request})
		return
	}
	// Counted before they are written, so that submissions that come together do not pass the limit together. Failed ones are taken off in
	// committed.
	q.admission.unfinished += len(m.Jobs)
	q.submissions.incoming = append(q.submissions.incoming,
		&submission{from: requester{sender, m.Request}, drafts: m.Jobs, by: m.By, submitter: m.Submitter, name: name, parent: m.Parent,
			firing: m.Firing})
	q.commitNext(ctx)
}

// checkSubmission answers a client whose submission this incarnation does not have: an
// earlier incarnation has lost it, or has answered it.
func (q *queue) checkSubmission(ctx actor.Context, sender *actor.PID, m *messages.CheckSubmission) {
	if !q.submissions.awaits(requester{sender, m.Request}) {
		ctx.Send(sender, &messages.CheckSubmissionResult{Request: m.Request})
	}
}

// commitNext starts the next commit, unless one is running. Before the files are
// written, the jobs are checked and built, the ends of archived dependencies are recorded
// and the filter rules evaluated.
func (q *queue) commitNext(ctx actor.Context) {
	if !q.submissions.begin(q.now()) {
		q.sendDrained(ctx)
		return
	}
	q.inSlices(ctx, q.checkGroup, func(ctx actor.Context) {
		if len(q.submissions.committing()) == 0 {
			q.committed(ctx)
			return
		}
		// After the check, so that a refused submission uses no ids.
		q.submissions.number()
		q.inSlices(ctx, q.buildGroup, q.prepared)
	})
}

// prepared continues a commit whose jobs are built: their dependencies are recorded, and the filter rules evaluated.
func (q *queue) prepared(ctx actor.Context) {
	q.submissions.group.prepared = true
	for _, s := range q.submissions.committing() {
		for i, j := range s.jobs {
			// Before the ends of the dependencies are looked up: an archiving that begins meanwhile finds these jobs, and waits for the commit.
			q.records.depend(int64(j.ID), s.dependencies[i])
		}
	}
	q.recordKnownEnds(ctx, q.evaluateGroup)
}

// perform performs a step of the running commit, and then the next one. The empty step ends the commit.
func (q *queue) perform(ctx actor.Context, step commitStep) {
	// If the store restarts before its answer, the step may have been performed twice, and next must know.
	incarnation := q.store.StoreIncarnation()
	done := func(ctx actor.Context, m *messages.ChangeFilesResult) {
		q.perform(ctx, q.submissions.group.next(m.Failures, q.store.StoreIncarnation() != incarnation))
	}
	switch {
	case step.write != nil:
		q.store.Write(ctx, step.write, done)
	case step.remove != nil:
		q.store.Remove(ctx, step.remove, done)
	case step.crash != nil:
		for _, s := range q.submissions.committing() {
			s.answer(ctx, nil)
		}
		panic(fmt.Errorf("a submission could neither be recorded nor taken back: %w", step.crash))
	default:
		q.committed(ctx)
	}
}

// committed ends the running commit: it answers each submission, gives the recorded
// jobs to the scheduler and starts the next commit.
func (q *queue) committed(ctx actor.Context) {
	var enqueue []*messages.UnfinishedJob
	var recorded []*messages.JobInfo
	for _, s := range q.submissions.end() {
		if s.failure != nil {
			q.admission.unfinished -= len(s.jobs)
			for i, j := range s.jobs {
				q.records.dropDependent(int64(j.ID), s.dependencies[i])
				q.forgetVerdict(ctx, int64(j.ID))
			}
			s.answer(ctx, nil)
			continue
		}
		ids := make([]int64, len(s.jobs))
		for i, j := range s.jobs {
			ids[i] = int64(j.ID)
			if w := q.recordedJob(ctx, s, i); w != nil {
				enqueue = append(enqueue, w)
			}
			recorded = append(recorded, q.index.get(ids[i]).info)
		}
		// The serial is durable and the index has the jobs: a client may ask for them as soon as it has this answer.
		s.answer(ctx, ids)
	}
	q.notifyAllSubscribers(ctx, recorded...)
	if enqueue != nil {
		// Not before the commit: a job that has started could not be taken back.
		ctx.Send(q.config.Scheduler, &messages.EnqueueJobs{Jobs: enqueue})
	}
	// Archivings that waited for this commit go on before the next one begins, for which they could have to wait again.
	for _, f := range q.submissions.takeAfterCommit() {
		f(ctx)
	}
	q.commitNext(ctx)
}

// recordedJob adds a job to the index that is on the disk. It returns the job for the
// scheduler; nil if a filter rule rejects it.
func (q *queue) recordedJob(ctx actor.Context, s *submission, i int) *messages.UnfinishedJob {
	j := s.jobs[i]
	info := s.infos[i]
	q.submissions.named.add(s.name, info.Id)
	if j.Status().Final() { // rejected
		q.retain(q.index.put(info, final))
		q.records.put(info.Id, s.dependencies[i], s.records[i])
		q.records.ended(info.Id)
		q.admission.unfinished--
		q.forgetVerdict(ctx, info.Id)
		return nil
	}
	q.retained.secrets.keep(info.Id, s.drafts[i].Ops)
	e := q.index.put(info, pending)
	q.records.put(info.Id, s.dependencies[i], s.records[i])
	return q.unfinishedJob(ctx, e)
}

// answer sends the answer to all requests of a submission. ids is nil if it has failed.
func (s *submission) answer(ctx actor.Context, ids []int64) {
	for _, r := range append([]requester{s.from}, s.repeats...) {
		ctx.Send(r.pid, &messages.SubmitJobsResult{Request: r.request, Ids: ids, Failure: s.failure})
	}
}
