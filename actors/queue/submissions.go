package queue

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/record"
	"lockstep/messages"
)

// submission is one SubmitJobs request between its acceptance and its answer.
type submission struct {
	from   requester
	drafts []*messages.JobDraft
	by     string // name of the submitter; "" if it is not known
	// submitter is to whom the jobs belong (access.Submitter); empty: the daemon's user.
	submitter []byte
	name      submissionName
	parent    int64 // job whose process submits them; 0 if none is known
	firing    *messages.ScheduleFiring
	// repeats are further requests with the same name and content. They get the same answer.
	repeats []requester

	checked  int // the drafts before this one are checked
	mistakes []answer.Mistake
	first    int64 // id of the first job, after number

	// The slices below have one element for each draft that is built.

	jobs    []*job.Job
	encoded [][]byte // jobs as they are written to the disk
	// dependencies are the ids of the earlier jobs that each job depends on, ascending.
	dependencies [][]int64
	records      []record.Record
	infos        []*messages.JobInfo // what the index will have of the jobs

	// failure is why the submission is not recorded; nil while no step has failed.
	failure *messages.Failure
}

// requester is an actor that waits for the answer to its request.
type requester struct {
	pid     *actor.PID
	request uint64
}

func (s *submission) firstID() int64 { return s.first }

func (s *submission) lastID() int64 { return s.first + int64(len(s.drafts)) - 1 }

// paths are the files of all jobs and records of the submission.
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

// submissions gives jobs their ids and groups submissions into commits. One commit
// runs at a time; the submissions that arrive meanwhile make the next one.
type submissions struct {
	// serial is the highest job id given in this incarnation or before. The ids of a
	// submission that fails are not given again. Invariant: recorded <= serial.
	serial int64
	// recorded is the serial on the disk.
	recorded int64
	// livelock is the path of the daemon's livelock, which new job files name.
	livelock string
	// remoteOverSocket: the remote API is a client of the socket, as Ganeti's is.
	remoteOverSocket bool

	incoming []*submission // in order of arrival, for the next commit
	group    *groupCommit  // the commit that is running; nil if none is
	// afterCommit is called, in order, when the running commit is over.
	afterCommit []func(actor.Context)

	named namedSubmissions
}

func newSubmissions(livelock string, remoteOverSocket bool) *submissions {
	return &submissions{livelock: livelock, remoteOverSocket: remoteOverSocket, named: newNamedSubmissions()}
}

// withoutForgedReasons is input without the entries of its reason trail that its submitter may not write. The remote API in this process
// has dropped those that its clients have forged.
func (s *submissions) withoutForgedReasons(input json.RawMessage, open *submission) json.RawMessage {
	// A schedule is no request of the remote API, also if its owner has come from there.
	if open.firing != nil || strings.HasPrefix(open.by, "uid=") && !s.remoteOverSocket {
		return job.WithoutReasons(input, job.UserSource, job.SubmitterSource, job.RemoteSource)
	}
	return job.WithoutReasons(input, job.UserSource, job.SubmitterSource)
}

// idle reports that no submission waits for an answer.
func (s *submissions) idle() bool { return s.group == nil && len(s.incoming) == 0 }

// committing are the submissions of the running commit; nil: none is running.
func (s *submissions) committing() []*submission {
	if s.group == nil {
		return nil
	}
	return s.group.submissions
}

// prepared are the submissions of the running commit, if their jobs are built.
func (s *submissions) prepared() []*submission {
	if s.group == nil || !s.group.prepared {
		return nil
	}
	return s.group.submissions
}

// awaits reports whether a request will get an answer from this incarnation, also as the repetition of another request.
func (s *submissions) awaits(from requester) bool {
	for _, open := range slices.Concat(s.incoming, s.committing()) {
		for _, r := range append(open.repeats, open.from) {
			if r.request == from.request && r.pid.Equal(from.pid) {
				return true
			}
		}
	}
	return false
}

// findOpen returns the submission with that name that has no answer yet; nil if there is none.
func (s *submissions) findOpen(name submissionName) *submission {
	for _, open := range slices.Concat(s.incoming, s.committing()) {
		if open.name == name {
			return open
		}
	}
	return nil
}

// begin starts a commit of all incoming submissions. It returns false if a commit is
// running or no submission has arrived.
func (s *submissions) begin(now job.Timestamp) bool {
	if s.group != nil || len(s.incoming) == 0 {
		return false
	}
	s.group = &groupCommit{submissions: s.incoming, recorded: s.recorded, began: now}
	s.incoming = nil
	return true
}

// number gives the jobs of the running commit their ids.
func (s *submissions) number() {
	for _, open := range s.group.submissions {
		open.first = s.serial + 1
		s.serial += int64(len(open.drafts))
	}
}

// end ends the running commit, takes over its serial, and returns its submissions.
func (s *submissions) end() []*submission {
	group := s.group.submissions
	s.recorded, s.group = s.group.recorded, nil
	return group
}

// takeAfterCommit returns the functions that wait for the end of the commit, and forgets them.
func (s *submissions) takeAfterCommit() []func(actor.Context) {
	waiting := s.afterCommit
	s.afterCommit = nil
	return waiting
}

// build makes the next job of a submission, which was received at now, with its record. A dependency on a job that cannot exist fails the
// submission.
func (s *submissions) build(open *submission, now job.Timestamp) {
	id := open.first + int64(len(open.jobs))
	draft := open.drafts[len(open.jobs)]
	inputs := make([]json.RawMessage, len(draft.Ops))
	priorities := make([]int, len(draft.Ops))
	for i, op := range draft.Ops {
		priorities[i] = int(op.Priority)
		input, err := opcode.ResolveDepends(op.Input, id)
		if err != nil && len(open.mistakes) < answer.MistakesMax {
			open.mistakes = append(open.mistakes, answer.Mistake{Job: len(open.jobs) + 1, Opcode: i + 1, Parameter: "depends", Text: err.Error()})
			open.failure = mistaken(open.mistakes[0].Text, open.mistakes)
		}
		inputs[i] = s.withoutForgedReasons(input, open)
	}
	j := job.New(job.ID(id), inputs, priorities, now, s.livelock)
	if open.by != "" {
		j.AppendReason(func(int) string { return job.UserSource }, func(int) string { return open.by }, now)
	}
	if len(open.submitter) > 0 {
		owner, _ := access.DecodeSubmitter(open.submitter, access.Submitter{}) // the gateway has encoded it
		j.AppendReason(func(int) string { return job.SubmitterSource }, func(int) string { return owner.Key() }, now)
	}
	j.AppendReason(
		func(op int) string {
			return "gnt:opcode:" + strings.ToLower(strings.TrimPrefix(job.OpID(inputs[op]), "OP_"))
		},
		func(op int) string { return fmt.Sprintf("job=%d;index=%d", j.ID, op) }, now)
	open.jobs, open.dependencies = append(open.jobs, j), append(open.dependencies, dependenciesOf(j))
	r := record.Record{}
	if draft.Followed {
		r = r.WithFollower()
	}
	if draft.AtUs > 0 {
		r = r.WithDue(max(draft.AtUs, now.Micros())) // a time that has passed is now
	}
	if draft.Name != "" {
		r = r.WithName(draft.Name)
	}
	if len(open.submitter) > 0 {
		r = r.WithSubmitter(open.submitter)
	}
	if open.parent > 0 {
		r = r.WithParent(open.parent)
	}
	if f := open.firing; f != nil {
		r = r.WithSchedule(record.Scheduled{Name: f.Schedule, DueUs: f.DueUs, By: f.By})
	}
	open.encoded, open.records = append(open.encoded, job.Encode(j)), append(open.records, r)
}
