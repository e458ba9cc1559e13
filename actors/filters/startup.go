package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// jobsPerStep is how many jobs are evaluated between two messages, which takes about 5 ms.
const jobsPerStep = 500

// pass evaluates all jobs of a restarted queue, a few at a time, so that submissions need
// not wait for the end of the pass.
type pass struct {
	number uint64
	sender *actor.PID
	jobs   []*messages.UnfinishedJob // not evaluated yet
	ended  map[int64]bool            // jobs that have ended since the pass began
}

// continuePass is sent by the actor to itself for the next step of a pass.
type continuePass struct{ pass uint64 }

func (f *filters) evaluateAll(ctx actor.Context, sender *actor.PID, jobs []*messages.UnfinishedJob) {
	clear(f.jobs)
	f.request++
	f.pass = &pass{number: f.request, sender: sender, jobs: jobs, ended: map[int64]bool{}}
	f.evaluateNext(ctx)
}

// evaluateNext evaluates the next jobs of a pass. The answer at its end has the verdicts on
// all jobs known by then, also on those submitted meanwhile, by the rules in force then.
func (f *filters) evaluateNext(ctx actor.Context) {
	p := f.pass
	next := p.jobs[:min(len(p.jobs), jobsPerStep)]
	p.jobs = p.jobs[len(next):]
	for _, w := range next {
		if !p.ended[w.Id] {
			f.evaluateJob(w)
		}
	}
	if len(p.jobs) > 0 {
		ctx.Send(ctx.Self(), &continuePass{p.number})
		return
	}
	f.pass = nil
	answer := &messages.EvaluateFiltersResult{}
	for _, evaluated := range f.jobs {
		if evaluated.verdict != nil {
			answer.Verdicts = append(answer.Verdicts, evaluated.verdict)
		}
	}
	slices.SortFunc(answer.Verdicts, func(a, b *messages.Verdict) int { return int(a.Id - b.Id) })
	ctx.Send(p.sender, answer)
}
