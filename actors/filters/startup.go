package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// jobsPerStep is how many jobs are judged between two messages: about 5 ms.
const jobsPerStep = 500

// pass judges all jobs of a queue that has started, a few at a time: who submits a job meanwhile must not wait until all
// others are judged.
type pass struct {
	number uint64
	sender *actor.PID
	jobs   []*messages.UnfinishedJob // that are not judged yet
	ended  map[int64]bool            // of these, perhaps: what has ended since
}

// continuePass goes on with a pass. It is a message to the actor itself.
type continuePass struct{ pass uint64 }

func (f *filters) evaluateAll(ctx actor.Context, sender *actor.PID, jobs []*messages.UnfinishedJob) {
	clear(f.jobs)
	f.request++
	f.pass = &pass{number: f.request, sender: sender, jobs: jobs, ended: map[int64]bool{}}
	f.evaluateNext(ctx)
}

// evaluateNext goes on with the pass. Its answer has the verdicts on all jobs that are known at its end: also on those that were
// submitted meanwhile, and by the rules that are in force then.
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
