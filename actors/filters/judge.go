package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/core/access"
	"lockstep/core/filter"
	"lockstep/core/job"
	"lockstep/messages"
)

const (
	// sliceWork is the work between two messages, in the steps of filter.Evaluation: about 5 ms.
	sliceWork = 250_000
	// decodeWork and decodedPerStep are the work of decoding a job, and the bytes that are decoded in one step.
	decodeWork, decodedPerStep = 100, 2
	// verdictWork is the work of a verdict that has changed.
	verdictWork = 50
	// verdictsMax is how many verdicts the queue is told at a time. It writes a file for each job that is rejected.
	verdictsMax = 500
)

// judging is what is left to judge. All of it is done some work at a time, so that messages in between wait for one slice only.
//
// Invariant: new jobs are judged by the rules in force. A change of the rules begins the judging of all other jobs again; the changes are
// answered when all are judged and the queue has the verdicts.
type judging struct {
	scheduled bool        // a proceed is on its way
	questions []*question // about new jobs, the oldest first
	asked     bool        // the present queue has asked about all jobs
	all       *question   // about all jobs; nil: none is open
	reached   []*reached  // jobs that have come to an opcode, the oldest first

	next    int                // the jobs before order[next] are judged by the rules in force
	current *filter.Evaluation // of order[next]; nil: not begun
	changed []*messages.Verdict
	untaken uint64    // request of the last VerdictsChanged; 0: the queue has taken it
	applied []*change // written and published, and not answered yet
}

// proceed is sent by the actor to itself for the next slice.
type proceed struct{ incarnation uint64 }

// question is an EvaluateFilters whose jobs are not all judged yet.
type question struct {
	sender  *actor.PID
	request uint64
	jobs    []*messages.UnfinishedJob
	next    int                // the jobs before jobs[next] are judged
	subject *filter.Subject    // of jobs[next], with evaluation
	current *filter.Evaluation // of jobs[next]; nil: not begun
	ended   map[int64]bool     // jobs that have ended since the question; nil: none
}

// evaluate takes a question about new jobs, or about all jobs of a restarted queue. In the second case what was known of jobs is
// forgotten.
func (f *filters) evaluate(ctx actor.Context, sender *actor.PID, m *messages.EvaluateFilters) {
	q := &question{sender: sender, request: m.Request, jobs: m.Jobs}
	if m.Request == 0 {
		clear(f.jobs)
		f.order, f.next, f.current, f.changed, f.untaken = make([]int64, len(m.Jobs)), 0, nil, nil, 0
		for i, w := range m.Jobs {
			f.order[i] = w.Id
		}
		slices.Sort(f.order)
		f.all, f.asked = q, true
	} else {
		f.questions = append(f.questions, q)
	}
	f.judge(ctx)
}

// forget drops a job that has ended or was not recorded, also from open questions and from verdicts that were not sent.
func (f *filters) forget(id int64) {
	delete(f.jobs, id)
	for _, q := range f.questions {
		q.jobEnded(id)
	}
	if f.all != nil {
		f.all.jobEnded(id)
	}
	f.changed = slices.DeleteFunc(f.changed, func(v *messages.Verdict) bool { return v.Id == id })
	if f.all == nil && f.next == len(f.order) && len(f.order) > 2*len(f.jobs)+64 {
		f.order = slices.DeleteFunc(f.order, func(id int64) bool { return f.jobs[id] == nil })
		f.next = len(f.order)
	}
}

func (q *question) jobEnded(id int64) {
	if q.ended == nil {
		q.ended = map[int64]bool{}
	}
	q.ended[id] = true
}

// rejudge begins the judging of all jobs by other rules. Open questions begin again, too.
func (f *filters) rejudge(ctx actor.Context) {
	f.next, f.current = 0, nil
	for _, q := range f.questions {
		q.next, q.current = 0, nil
	}
	for _, r := range f.reached {
		r.current = nil
	}
	if f.all != nil {
		f.all.current = nil // the jobs before it are in order
	}
	f.judge(ctx)
}

// judge makes one slice, unless the next one is on its way. New jobs have one half of it, all others the rest, so that neither wait for the
// end of the other.
func (f *filters) judge(ctx actor.Context) {
	if f.scheduled || f.rules == nil {
		return
	}
	half := max(f.slice/2, 1)
	work := half
	for len(f.reached) > 0 && f.judgeReached(ctx, f.reached[0], &work) {
		f.reached = f.reached[1:]
	}
	for len(f.questions) > 0 && f.judgeNew(f.questions[0], &work) {
		f.answer(ctx, f.questions[0])
		f.questions = f.questions[1:]
	}
	work = max(work, 0) + half
	if (f.all == nil || f.judgeNew(f.all, &work)) && f.judgeKnown(&work) && f.all != nil {
		f.answerAll(ctx)
	}
	f.tellChanged(ctx)
	if f.isSettled() {
		f.answerChanges(ctx)
	}
	if f.canGoOn() {
		f.scheduled = true
		ctx.Send(ctx.Self(), &proceed{f.incarnation})
	}
}

// canGoOn reports whether there are jobs to judge before the queue has taken verdicts.
func (f *filters) canGoOn() bool {
	judgesAll := f.all != nil && f.all.next < len(f.all.jobs)
	judgesNext := f.next < len(f.order) && len(f.changed) < verdictsMax
	return len(f.questions) > 0 || f.canReach() || judgesAll || judgesNext
}

// canReach reports whether the oldest ReachOp waits for work only.
func (f *filters) canReach() bool {
	return len(f.reached) > 0 && (f.jobs[f.reached[0].message.Id] != nil || !f.mayCome())
}

// isSettled reports whether all jobs are judged by the rules in force, and the queue has the verdicts.
func (f *filters) isSettled() bool {
	return f.asked && f.all == nil && f.next == len(f.order) && len(f.changed) == 0 && f.untaken == 0
}

// judgeNew judges the jobs of a question, and keeps their subjects and verdicts. It reports false when the slice of work is used up.
func (f *filters) judgeNew(q *question, work *int) (done bool) {
	for ; q.next < len(q.jobs); q.next++ {
		if *work <= 0 {
			return false
		}
		id := q.jobs[q.next].Id
		if q.ended[id] {
			q.current = nil
			continue
		}
		if q.current == nil {
			*work -= decodeWork + len(q.jobs[q.next].Encoded)/decodedPerStep
			j, err := job.Decode(q.jobs[q.next].Encoded)
			if err != nil {
				continue // the queue has decoded the job and logged the error
			}
			user, err := access.DecodeSubmitter(q.jobs[q.next].Submitter, f.config.Daemon)
			if err != nil {
				f.config.Env.Log().WithFields(logrus.Fields{"job": id, "err": err}).Error("a job's user is unknown to filter rules")
			}
			q.subject = filter.NewSubject(j, q.jobs[q.next].Name, user)
			q.current = f.begin(q.subject)
		}
		v, judged := q.current.Continue(work)
		if !judged {
			return false
		}
		f.addOrder(id)
		f.jobs[id] = &evaluatedJob{subject: q.subject, verdict: f.verdict(id, v), by: f.rules}
		q.current = nil
	}
	return true
}

// addOrder adds the id of a job that is judged by the rules in force. Almost always it is the highest.
func (f *filters) addOrder(id int64) {
	at, found := slices.BinarySearch(f.order, id)
	if found {
		return
	}
	f.order = slices.Insert(f.order, at, id)
	if at <= f.next {
		f.next++
	}
}

func (f *filters) begin(s *filter.Subject) *filter.Evaluation {
	e := f.rules.Begin(s, f.declare)
	return &e
}

// judgeKnown judges the other jobs after a change of the rules, in the order of their ids, until the queue has to take verdicts first. It
// reports whether all are judged.
func (f *filters) judgeKnown(work *int) (done bool) {
	for ; f.next < len(f.order); f.next++ {
		if *work <= 0 || len(f.changed) >= verdictsMax {
			return false
		}
		*work--
		id := f.order[f.next]
		e := f.jobs[id]
		if e == nil || e.by == f.rules {
			f.current = nil
			continue
		}
		if f.current == nil {
			f.current = f.begin(e.subject)
		}
		v, judged := f.current.Continue(work)
		if !judged {
			return false
		}
		f.current, e.by = nil, f.rules
		now := f.verdict(id, v)
		if sameVerdict(now, e.verdict) {
			continue
		}
		e.verdict = now
		if now == nil {
			now = &messages.Verdict{Id: id}
		}
		f.changed = append(f.changed, now)
		*work -= verdictWork
	}
	return true
}

// answer sends the verdicts on new jobs to the queue, which waits with their submission for them.
func (f *filters) answer(ctx actor.Context, q *question) {
	answer := &messages.EvaluateFiltersResult{Request: q.request}
	for _, w := range q.jobs {
		if e := f.jobs[w.Id]; e != nil && e.verdict != nil {
			answer.Verdicts = append(answer.Verdicts, e.verdict)
		}
	}
	ctx.Send(q.sender, answer)
}

// answerAll answers the question about all jobs with the verdicts on all jobs known by now, also on those submitted meanwhile.
func (f *filters) answerAll(ctx actor.Context) {
	f.request++
	f.untaken = f.request
	answer := &messages.EvaluateFiltersResult{Taken: f.request}
	for _, id := range f.order {
		if e := f.jobs[id]; e != nil && e.verdict != nil {
			answer.Verdicts = append(answer.Verdicts, e.verdict)
		}
	}
	ctx.Send(f.all.sender, answer)
	f.all, f.changed = nil, nil
}

// tellChanged tells the queue the verdicts that have changed, if it has taken the last ones.
func (f *filters) tellChanged(ctx actor.Context) {
	if f.untaken == 0 && len(f.changed) > 0 {
		f.request++
		f.untaken = f.request
		ctx.Request(f.config.Queue, &messages.VerdictsChanged{Request: f.request, Verdicts: f.changed})
		f.changed = nil
	}
}

// verdictsTaken continues the judging when the queue has taken the verdicts that were sent last.
func (f *filters) verdictsTaken(ctx actor.Context, m *messages.VerdictsTaken) {
	if m.Request == f.untaken {
		f.untaken = 0
		f.judge(ctx)
	}
}
