package queue

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
)

// submissionName is the name that a client has given a submission. It belongs to the user: two users who choose one text make two
// submissions. The zero value is no name.
type submissionName struct{ submitter, text string }

// namedSubmissions knows which jobs belong to the submissions that clients have named
// (see job.SubmissionSource). The names are in the job files, so that they survive the
// daemon, except for jobs that were archived before its start.
type namedSubmissions struct {
	// jobs are the ids of a submission by its name, in the order of its drafts.
	jobs map[submissionName][]int64
	// remaining is how many of these jobs are in the index. It is positive.
	remaining map[submissionName]int
	// names is the name of the submission of a job of the index.
	names map[int64]submissionName
}

func newNamedSubmissions() namedSubmissions {
	return namedSubmissions{map[submissionName][]int64{}, map[submissionName]int{}, map[int64]submissionName{}}
}

// add adds a job to a submission. Without a name it does nothing.
func (r *namedSubmissions) add(name submissionName, id int64) {
	if name.text != "" {
		r.jobs[name] = append(r.jobs[name], id)
		r.remaining[name]++
		r.names[id] = name
	}
}

// drop notes that a job has left the index. The submission is forgotten with its last
// job, and not before: otherwise a repeated request would create all jobs again after
// some of them were archived.
func (r *namedSubmissions) drop(id int64) {
	name, named := r.names[id]
	if !named {
		return
	}
	delete(r.names, id)
	if r.remaining[name]--; r.remaining[name] == 0 {
		delete(r.jobs, name)
		delete(r.remaining, name)
	}
}

// nameOf returns the name of a submission that is requested.
func (q *queue) nameOf(m *messages.SubmitJobs) submissionName {
	if len(m.Jobs) == 0 || len(m.Jobs[0].Ops) == 0 {
		return submissionName{}
	}
	return q.submissionName(m.Jobs[0].Ops[0].Input, m.Submitter)
}

// submissionName returns the name in the input of a job's first opcode, as one of the user to whom the job belongs.
func (q *queue) submissionName(input, submitter []byte) submissionName {
	text := job.SubmissionName(json.RawMessage(input))
	if text == "" {
		return submissionName{}
	}
	// A submitter that cannot be read has no key. No client has none, so a repetition makes jobs of its own.
	owner, _ := access.DecodeSubmitter(submitter, q.config.Daemon)
	return submissionName{owner.Key(), text}
}

// repeatedSubmission is a request that names an earlier submission. Its drafts are
// compared with the jobs of that submission.
type repeatedSubmission struct {
	from      requester
	name      submissionName
	drafts    []*messages.JobDraft
	ids       []int64           // jobs of the earlier submission
	remaining int               // jobs that are not compared yet
	differs   bool              // a job differs from its draft
	failure   *messages.Failure // the last failure to read a job file
}

// compare compares job i with its draft. content is the file of the job; nil if it is
// archived, and then nothing is compared. It returns true for the last job.
func (r *repeatedSubmission) compare(i int, content []byte) bool {
	if content != nil {
		j, err := job.Decode(content)
		r.differs = r.differs || err != nil || !sameJob(j, r.drafts[i])
	}
	r.remaining--
	return r.remaining == 0
}

// result is the answer after all comparisons: the ids of the first submission, or why the repetition is refused.
func (r *repeatedSubmission) result() *messages.SubmitJobsResult {
	switch {
	case r.differs:
		return differentContent(r.name.text, r.from.request)
	case r.failure != nil:
		return &messages.SubmitJobsResult{Request: r.from.request, Failure: &messages.Failure{Class: r.failure.Class, Text: fmt.Sprintf(
			"%s; a submission named %q came before, so look at the list of jobs before you send it again", r.failure.Text, r.name.text)}}
	}
	return &messages.SubmitJobsResult{Request: r.from.request, Ids: r.ids}
}

func differentContent(name string, request uint64) *messages.SubmitJobsResult {
	return &messages.SubmitJobsResult{Request: request, Failure: wrongInput(fmt.Sprintf(
		"A submission named %q came before, with other jobs or opcodes: look at the list of jobs, and use a new name for each submission", name))}
}

// sameJob reports whether a job was made from a draft: its opcodes have the same parameters.
func sameJob(j *job.Job, draft *messages.JobDraft) bool {
	return slices.EqualFunc(j.Ops, draft.Ops, func(op job.Op, d *messages.OpDraft) bool {
		input, err := opcode.ResolveDepends(d.Input, int64(j.ID))
		return err == nil && job.SameSubmission(op.Input, input)
	})
}

func sameDrafts(a, b []*messages.JobDraft) bool {
	sameOps := func(a, b *messages.OpDraft) bool { return job.SameSubmission(a.Input, b.Input) }
	return slices.EqualFunc(a, b, func(a, b *messages.JobDraft) bool {
		return a.Name == b.Name && slices.EqualFunc(a.Ops, b.Ops, sameOps)
	})
}

// answerRepeated answers a request that names an earlier submission: at once if that
// is committed, otherwise together with it. It returns false if there is no submission
// of that name.
func (q *queue) answerRepeated(ctx actor.Context, sender *actor.PID, name submissionName, m *messages.SubmitJobs) bool {
	if name.text == "" {
		return false
	}
	from := requester{sender, m.Request}
	if s := q.submissions.findOpen(name); s != nil {
		if sameDrafts(s.drafts, m.Jobs) {
			s.repeats = append(s.repeats, from)
		} else {
			ctx.Send(sender, differentContent(name.text, m.Request))
		}
		return true
	}
	ids, known := q.submissions.named.jobs[name]
	if !known {
		return false
	}
	if len(ids) != len(m.Jobs) {
		ctx.Send(sender, differentContent(name.text, m.Request))
		return true
	}
	r := &repeatedSubmission{from: from, name: name, drafts: m.Jobs, ids: slices.Clone(ids), remaining: len(ids)}
	for i, id := range r.ids {
		q.compareJob(ctx, r, i, id)
	}
	return true
}

// compareJob compares one job with its draft. The opcodes of a final job are only in its file. After the last comparison the submission
// is answered.
func (q *queue) compareJob(ctx actor.Context, r *repeatedSubmission, i int, id int64) {
	compared := func(ctx actor.Context, content []byte) {
		if r.compare(i, content) {
			q.answerCompared(ctx, r)
		}
	}
	e := q.index.get(id)
	r.differs = r.differs || e != nil && q.records.get(id).Name() != r.drafts[i].Name
	switch {
	case e == nil:
		compared(ctx, nil)
	case len(e.info.Encoded) > 0:
		compared(ctx, e.info.Encoded)
	default:
		q.store.Read(ctx, "repeat", paths.JobPath(id), func(ctx actor.Context, f *messages.ReadFileResult) {
			if f.Failure != nil {
				r.failure = f.Failure
			}
			compared(ctx, f.Content)
		})
	}
}

// answerCompared answers a repeated request. If its content is the same, pending jobs
// whose secrets were lost in a restart of the daemon get the secrets of the request.
func (q *queue) answerCompared(ctx actor.Context, r *repeatedSubmission) {
	answer := r.result()
	if answer.Failure == nil {
		for i, id := range r.ids {
			if e := q.index.get(id); e != nil && e.stage == pending && q.retained.secrets[id] == nil {
				q.retained.secrets.keep(id, r.drafts[i].Ops)
				q.index.recount(e)
			}
		}
	}
	ctx.Send(r.from.pid, answer)
}
