package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// submission is one request to record jobs, on its way through a commit.
type submission struct {
	request uint64
	sender  *actor.PID
	drafts  []*messages.JobDraft
	jobs    []*job.Job
	encoded [][]byte
	// dependencies and records are as in entry.
	dependencies [][]int64
	records      []record.Record
	failure      *messages.Failure
	by           string      // who asks, "" if that is not known
	name         string      // that its client has given it, to be told apart from others
	repeats      []requester // who has sent it again
}

func (q *queue) submit(ctx actor.Context, sender *actor.PID, m *messages.SubmitJobs) {
	name := submissionName(m.Jobs)
	if q.answerRepeated(ctx, sender, name, m) {
		return
	}
	if f := q.refusal(m); f != nil {
		ctx.Send(sender, &messages.SubmitJobsResult{Request: m.Request, Failure: f})
		return
	}
	if len(m.Jobs) == 0 {
		ctx.Send(sender, &messages.SubmitJobsResult{Request: m.Request})
		return
	}
	q.unfinished += len(m.Jobs)
	q.incoming = append(q.incoming, &submission{request: m.Request, sender: sender, drafts: m.Jobs, by: m.By, name: name})
	q.commitNext(ctx)
}

// checkSubmission answers who fears that a former incarnation had it.
func (q *queue) checkSubmission(ctx actor.Context, sender *actor.PID, m *messages.CheckSubmission) {
	for _, s := range slices.Concat(q.incoming, q.group) {
		for _, a := range append(s.repeats, requester{s.sender, s.request}) {
			if a.request == m.Request && a.pid.Equal(sender) {
				return
			}
		}
	}
	ctx.Send(sender, &messages.CheckSubmissionResult{Request: m.Request})
}

func (q *queue) refusal(m *messages.SubmitJobs) *messages.Failure {
	switch {
	case q.draining != nil:
		return messages.GenericFailure("The daemon is stopping; submit again when it is back")
	case q.drained && !m.IgnoreDrain:
		return messages.DrainedFailure("Job queue is drained, refusing job")
	}
	if most := q.config.Limits.Unfinished; most > 0 && q.unfinished+len(m.Jobs) > most {
		return messages.QueueFullFailure(fmt.Sprintf(
			"The queue holds %d jobs that have not ended, and may hold %d: submit again when some have", q.unfinished, most))
	}
	for i, draft := range m.Jobs {
		if f := q.refusalOfJob(draft); f != nil {
			if len(m.Jobs) > 1 {
				f.Text = fmt.Sprintf("Job %d of %d: %s", i+1, len(m.Jobs), f.Text)
			}
			return f
		}
	}
	return nil
}

func (q *queue) refusalOfJob(draft *messages.JobDraft) *messages.Failure {
	size := 0
	for _, op := range draft.Ops {
		size += len(op.Input)
	}
	limits := q.config.Limits
	switch {
	case len(draft.Ops) == 0:
		return wrongInput("A job needs at least one opcode")
	case limits.Ops > 0 && len(draft.Ops) > limits.Ops:
		return wrongInput(fmt.Sprintf("A job of %d opcodes is more than the %d that one may have", len(draft.Ops), limits.Ops))
	case limits.JobBytes > 0 && size > limits.JobBytes:
		return wrongInput(fmt.Sprintf("A job of %d bytes is more than the %d that one may have", size, limits.JobBytes))
	}
	return nil
}

func wrongInput(text string) *messages.Failure {
	return messages.PrereqFailure(messages.WrongInput, text)
}

// commitNext commits everything that has come in, together: parallel syncs of
// the job files, one sync of the directory, then one write of the serial, which
// is the commit record (design.md 4, step 1). What comes in meanwhile
// makes the next commit.
func (q *queue) commitNext(ctx actor.Context) {
	if q.group != nil || len(q.incoming) == 0 {
		q.sendDrained(ctx)
		return
	}
	q.incoming, q.group = nil, q.incoming
	for _, s := range q.group {
		q.buildJobs(s)
	}
	q.recordKnownEnds(ctx, q.evaluateGroup)
}

func (s *submission) firstID() int64 { return int64(s.jobs[0].ID) }

// writeGroup writes the job files of the group, with what the rules make of them.
func (q *queue) writeGroup(ctx actor.Context) {
	group := q.group
	write := &messages.WriteFiles{Durable: true, Logged: true}
	last, complete := int64(0), true
	for _, s := range group {
		complete = complete && s.failure == nil
		for i, j := range s.jobs {
			last = int64(j.ID)
			write.Files = append(write.Files, &messages.FileWrite{Op: "submit-job", Path: paths.JobPath(int64(j.ID)), Content: s.encoded[i]})
			if !s.records[i].Empty() {
				write.Files = append(write.Files, recordFile("submit-record", int64(j.ID), s.records[i]))
			}
		}
	}
	if complete { // else a part is taken back before there is a commit record
		write.CommitRecord = serialFile(last)
	}
	incarnation := q.store.StoreIncarnation()
	q.store.Write(ctx, write, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		failed := len(done.Failures) > 0
		// Of a write that was sent twice the first may have reached the serial.
		serialWritten := failed && (done.Failures[0].Path == paths.SerialPath || q.store.StoreIncarnation() != incarnation)
		switch {
		case write.CommitRecord != nil && serialWritten:
			q.rollBackSerial(ctx, group, done.Failures[0].Failure)
		case write.CommitRecord == nil || failed:
			q.jobsWritten(ctx, group, done.Failures)
		default:
			q.recorded = last
			q.committed(ctx, group)
		}
	})
}

// serialFile is the commit record.
func serialFile(serial int64) *messages.FileWrite {
	return &messages.FileWrite{Op: "serial", Path: paths.SerialPath, Content: paths.FormatSerial(serial)}
}

// buildJobs gives a submission its ids, which are burnt whatever becomes of it.
func (q *queue) buildJobs(s *submission) {
	now := q.now()
	for _, draft := range s.drafts {
		q.serial++
		inputs := make([]json.RawMessage, len(draft.Ops))
		priorities := make([]int, len(draft.Ops))
		for i, op := range draft.Ops {
			priorities[i] = int(op.Priority)
			input, err := opcode.ResolveDepends(op.Input, q.serial)
			if err != nil && s.failure == nil {
				s.failure = wrongInput(err.Error())
			}
			inputs[i] = input
			if s.by != "" {
				inputs[i] = job.WithoutReasons(input, job.UserSource)
			}
		}
		j := job.New(job.ID(q.serial), inputs, priorities, now, q.config.Livelock)
		if s.by != "" {
			j.AppendReason(func(int) string { return job.UserSource }, func(int) string { return s.by }, now)
		}
		j.AppendReason(
			func(op int) string {
				return "gnt:opcode:" + strings.ToLower(strings.TrimPrefix(job.OpID(inputs[op]), "OP_"))
			},
			func(op int) string { return fmt.Sprintf("job=%d;index=%d", j.ID, op) }, now)
		dependencies := dependenciesOf(j)
		q.dependents.add(int64(j.ID), dependencies)
		s.jobs, s.dependencies = append(s.jobs, j), append(s.dependencies, dependencies)
		s.encoded, s.records = append(s.encoded, job.Encode(j)), append(s.records, record.Record{})
	}
}

// jobsWritten takes back the submissions that could not be written whole, then
// commits the others.
func (q *queue) jobsWritten(ctx actor.Context, group []*submission, failures []*messages.FileFailure) {
	failed := make(map[string]*messages.Failure, len(failures))
	for _, f := range failures {
		failed[f.Path] = f.Failure
	}
	var written []*submission
	var toRemove []string
	for _, s := range group {
		for _, j := range s.jobs {
			for _, file := range []string{paths.JobPath(int64(j.ID)), paths.RecordPath(int64(j.ID))} {
				if f := failed[file]; f != nil && s.failure == nil {
					s.failure = f
				}
			}
		}
		if s.failure == nil {
			written = append(written, s)
			continue
		}
		toRemove = append(toRemove, s.paths()...)
	}
	if toRemove == nil {
		q.writeSerial(ctx, group, written)
		return
	}
	q.store.Remove(ctx, &messages.RemoveFiles{Op: "take-back", Paths: toRemove}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.Failures) > 0 {
			// A file that stays would become a job with the next serial.
			// Without a serial it is set aside at the next start.
			q.abort(ctx, group, done.Failures[0].Failure)
			return
		}
		q.writeSerial(ctx, group, written)
	})
}

func (s *submission) paths() []string {
	files := make([]string, len(s.jobs))
	for i, j := range s.jobs {
		files[i] = paths.JobPath(int64(j.ID))
		if !s.records[i].Empty() {
			files = append(files, paths.RecordPath(int64(j.ID)))
		}
	}
	return files
}

func (q *queue) writeSerial(ctx actor.Context, group, written []*submission) {
	if len(written) == 0 {
		q.committed(ctx, group)
		return
	}
	jobs := written[len(written)-1].jobs
	last := int64(jobs[len(jobs)-1].ID)
	q.writeSerialFile(ctx, last, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			q.rollBackSerial(ctx, group, f)
			return
		}
		q.recorded = last
		q.committed(ctx, group)
	})
}

func (q *queue) writeSerialFile(ctx actor.Context, serial int64, done func(actor.Context, *messages.Failure)) {
	q.store.Write(ctx, &messages.WriteFiles{Files: []*messages.FileWrite{serialFile(serial)}, Durable: true, Logged: true},
		func(ctx actor.Context, written *messages.ChangeFilesResult) {
			if len(written.Failures) > 0 {
				done(ctx, written.Failures[0].Failure)
				return
			}
			done(ctx, nil)
		})
}

// rollBackSerial makes sure that the commit record is not there, before the jobs
// are taken back one by one: a crash in between must not leave some of them.
func (q *queue) rollBackSerial(ctx actor.Context, group []*submission, cause *messages.Failure) {
	q.writeSerialFile(ctx, q.recorded, func(ctx actor.Context, f *messages.Failure) {
		if f != nil {
			q.crashAndRescan(ctx, group, cause, f)
		}
		q.abort(ctx, group, cause)
	})
}

// abort takes back a whole group, whose serial is not on the disk.
func (q *queue) abort(ctx actor.Context, group []*submission, cause *messages.Failure) {
	var paths []string
	for _, s := range group {
		if s.failure == nil {
			s.failure = cause
		}
		paths = append(paths, s.paths()...)
	}
	q.store.Remove(ctx, &messages.RemoveFiles{Op: "take-back", Paths: paths}, func(ctx actor.Context, done *messages.ChangeFilesResult) {
		if len(done.Failures) > 0 {
			q.crashAndRescan(ctx, group, cause, done.Failures[0].Failure)
		}
		q.committed(ctx, group)
	})
}

// crashAndRescan gives up on a group that could neither be recorded nor taken back: it
// tells its senders so, and has the disk read anew, before another serial could
// make jobs of what is left.
func (q *queue) crashAndRescan(ctx actor.Context, group []*submission, cause, last *messages.Failure) {
	for _, s := range group {
		s.failure = &messages.Failure{Class: cause.Class,
			Text: cause.Text + "; it could not be taken back either, so look at the list of jobs before you send it again"}
		s.answer(ctx, nil)
	}
	panic(fmt.Errorf("a submission could neither be recorded nor taken back: %w", last))
}

// committed tells what has become of each submission of a group.
func (q *queue) committed(ctx actor.Context, group []*submission) {
	q.group = nil
	var enqueue []*messages.UnfinishedJob
	var recorded []*entry
	for _, s := range group {
		if s.failure != nil {
			q.unfinished -= len(s.jobs)
			for i, j := range s.jobs {
				q.dependents.drop(int64(j.ID), s.dependencies[i])
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
			recorded = append(recorded, q.entries[ids[i]])
		}
		s.answer(ctx, ids)
	}
	q.notifyAllSubscribers(ctx, recorded...)
	if enqueue != nil {
		ctx.Send(q.config.Scheduler, &messages.EnqueueJobs{Jobs: enqueue})
	}
	waiting := q.afterCommit
	q.afterCommit = nil
	for _, f := range waiting {
		f(ctx)
	}
	q.commitNext(ctx)
}

// recordedJob takes a job into the index that is on the disk now; nil if it is not
// to be run.
func (q *queue) recordedJob(ctx actor.Context, s *submission, i int) *messages.UnfinishedJob {
	j := s.jobs[i]
	info := q.newInfo(j, s.encoded[i])
	q.submissions.add(s.name, info.Id)
	if j.Status().Final() { // rejected
		q.putRecord(q.putEntry(info, final), s.dependencies[i], s.records[i])
		q.dropDependencies(q.entries[info.Id])
		q.unfinished--
		q.forgetVerdict(ctx, info.Id)
		return nil
	}
	q.secrets.keep(info.Id, s.drafts[i].Ops)
	q.putRecord(q.putEntry(info, pending), s.dependencies[i], s.records[i])
	return q.unfinishedJob(ctx, q.entries[info.Id])
}
