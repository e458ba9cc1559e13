package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
	"lockstep/messages"
)

// reached is a ReachOp, of a job that comes to its next opcode, that waits for its verdict.
type reached struct {
	sender  *actor.PID
	message *messages.ReachOp
	subject *filter.Subject    // at the opcode, with current
	current *filter.Evaluation // nil: not begun
}

// reachOp judges a job at its next opcode. Without a rule about locks the verdict stays.
func (f *filters) reachOp(ctx actor.Context, sender *actor.PID, m *messages.ReachOp) {
	f.reached = append(f.reached, &reached{sender: sender, message: m})
	f.judge(ctx)
}

// judgeReached answers the oldest ReachOp. It reports false if that has to wait for more work, or for the answer to a question that has
// the job.
func (f *filters) judgeReached(ctx actor.Context, r *reached, work *int) (done bool) {
	id := r.message.Id
	e := f.jobs[id]
	if e == nil {
		if f.mayCome() {
			return false
		}
		ctx.Send(r.sender, &messages.ReachOpResult{Request: r.message.Request, Verdict: &messages.Verdict{Id: id}})
		return true
	}
	if r.current == nil {
		if r.subject = e.subject.At(int(r.message.Op)); r.subject == nil {
			r.subject = e.subject
		}
		if !f.rules.ReadsLocks() {
			e.subject = r.subject
			f.answerReached(ctx, r, e)
			return true
		}
		r.current = f.begin(r.subject)
	}
	if *work <= 0 {
		return false
	}
	v, judged := r.current.Continue(work)
	if !judged {
		return false
	}
	e.subject, e.by = r.subject, f.rules
	e.verdict = f.verdict(id, v)
	f.changed = slices.DeleteFunc(f.changed, func(v *messages.Verdict) bool { return v.Id == id })
	f.answerReached(ctx, r, e)
	return true
}

// mayCome reports whether a job that is not known may be in a question.
func (f *filters) mayCome() bool { return !f.asked || f.all != nil || len(f.questions) > 0 }

func (f *filters) answerReached(ctx actor.Context, r *reached, e *evaluatedJob) {
	v := e.verdict
	if v == nil {
		v = &messages.Verdict{Id: r.message.Id}
	}
	ctx.Send(r.sender, &messages.ReachOpResult{Request: r.message.Request, Verdict: v})
}
