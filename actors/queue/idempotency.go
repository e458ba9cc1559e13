package queue

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/messages"
)

// namedSubmissions is which jobs came of the submissions that clients have named (see
// job.SubmissionSource), as long as one of these is in the queue. The names are in the
// job files: it survives the daemon, but for jobs that were archived before.
type namedSubmissions struct {
	jobs      map[string][]int64
	remaining map[string]int // of those, how many are in the queue
	names     map[int64]string
}

func newNamedSubmissions() namedSubmissions {
	return namedSubmissions{map[string][]int64{}, map[string]int{}, map[int64]string{}}
}

func (r *namedSubmissions) add(name string, id int64) {
	if name != "" {
		r.jobs[name] = append(r.jobs[name], id)
		r.remaining[name]++
		r.names[id] = name
	}
}

// drop takes note that a job has left the queue. Its submission is forgotten with the
// last one: who sends it again after a part was archived would make all jobs again.
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

func submissionName(jobs []*messages.JobDraft) string {
	if len(jobs) == 0 || len(jobs[0].Ops) == 0 {
		return ""
	}
	return job.SubmissionName(json.RawMessage(jobs[0].Ops[0].Input))
}

// answerRepeated answers a submission that has come before, now or when that is
// committed; false: it has not.
func (q *queue) answerRepeated(ctx actor.Context, sender *actor.PID, name string, m *messages.SubmitJobs) bool {
	if name == "" {
		return false
	}
	for _, list := range [][]*submission{q.incoming, q.group} {
		for _, s := range list {
			switch {
			case s.name != name:
			case !sameDrafts(s.drafts, m.Jobs):
				refuseDifferentContent(ctx, sender, name, m)
				return true
			default:
				s.repeats = append(s.repeats, requester{sender, m.Request})
				return true
			}
		}
	}
	ids, known := q.submissions.jobs[name]
	if !known {
		return false
	}
	r := &repeatedSubmission{sender: sender, name: name, m: m, ids: slices.Clone(ids), remaining: len(ids)}
	if r.differs = len(ids) != len(m.Jobs); r.differs {
		q.answerRepeatedSubmission(ctx, r)
		return true
	}
	for i, id := range r.ids {
		q.compareJob(ctx, r, i, id)
	}
	return true
}

// repeatedSubmission is a submission that is held against the jobs of an earlier one.
type repeatedSubmission struct {
	sender    *actor.PID
	name      string
	m         *messages.SubmitJobs
	ids       []int64
	remaining int // jobs that are still to be compared
	differs   bool
	failure   *messages.Failure // of the disk
}

// compareJob holds one job against its draft. Of a job that has ended only the file has
// the opcodes; one that was archived is not looked at.
func (q *queue) compareJob(ctx actor.Context, r *repeatedSubmission, i int, id int64) {
	compared := func(ctx actor.Context, content []byte) {
		if content != nil {
			j, err := job.Decode(content)
			r.differs = r.differs || err != nil || !sameJob(j, r.m.Jobs[i])
		}
		if r.remaining--; r.remaining == 0 {
			q.answerRepeatedSubmission(ctx, r)
		}
	}
	switch e := q.entries[id]; {
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

// answerRepeatedSubmission tells the ids of the jobs that there are, or refuses what is another
// submission under the same name. Only who has sent the same may bring the secrets
// again that a daemon has lost.
func (q *queue) answerRepeatedSubmission(ctx actor.Context, r *repeatedSubmission) {
	switch {
	case r.differs:
		refuseDifferentContent(ctx, r.sender, r.name, r.m)
		return
	case r.failure != nil:
		ctx.Send(r.sender, &messages.SubmitJobsResult{Request: r.m.Request, Failure: &messages.Failure{Class: r.failure.Class, Text: fmt.Sprintf(
			"%s; a submission named %q came before, so look at the list of jobs before you send it again", r.failure.Text, r.name)}})
		return
	}
	for i, id := range r.ids {
		if e := q.entries[id]; e != nil && e.stage == pending && q.secrets[id] == nil {
			q.secrets.keep(id, r.m.Jobs[i].Ops) // a daemon that has restarted has lost its secrets
			q.updateTally(id, e)
		}
	}
	ctx.Send(r.sender, &messages.SubmitJobsResult{Request: r.m.Request, Ids: r.ids})
}

func refuseDifferentContent(ctx actor.Context, sender *actor.PID, name string, m *messages.SubmitJobs) {
	ctx.Send(sender, &messages.SubmitJobsResult{Request: m.Request, Failure: wrongInput(fmt.Sprintf(
		"A submission named %q came before, with other jobs or opcodes: look at the list of jobs, and use a new name for each submission", name))})
}

// sameJob reports whether a job came of a draft.
func sameJob(j *job.Job, draft *messages.JobDraft) bool {
	return slices.EqualFunc(j.Ops, draft.Ops, func(op job.Op, d *messages.OpDraft) bool {
		input, err := opcode.ResolveDepends(d.Input, int64(j.ID))
		return err == nil && job.SameSubmission(op.Input, input)
	})
}

func sameDrafts(a, b []*messages.JobDraft) bool {
	return slices.EqualFunc(a, b, func(a, b *messages.JobDraft) bool {
		return slices.EqualFunc(a.Ops, b.Ops, func(a, b *messages.OpDraft) bool { return job.SameSubmission(a.Input, b.Input) })
	})
}

// requester is somebody who waits for a submission that was sent before.
type requester struct {
	pid     *actor.PID
	request uint64
}

// answer answers everybody who waits for a submission.
func (s *submission) answer(ctx actor.Context, ids []int64) {
	for _, a := range append([]requester{{s.sender, s.request}}, s.repeats...) {
		ctx.Send(a.pid, &messages.SubmitJobsResult{Request: a.request, Ids: ids, Failure: s.failure})
	}
}
