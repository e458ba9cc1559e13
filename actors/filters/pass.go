package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// passStep is how many jobs are judged between two messages: about 5 ms.
const passStep = 500

// pass judges all jobs of a queue that has started, a few at a time: who submits a job meanwhile must not wait until all
// others are judged.
type pass struct {
	number uint64
	sender *actor.PID
	jobs   []*messages.WaitingJob // that are not judged yet
	gone   map[int64]bool         // of these, perhaps: what has ended since
}

// judgeMore goes on with a pass. It is a message to the actor itself.
type judgeMore struct{ pass uint64 }

func (f *filters) judgeAll(ctx actor.Context, sender *actor.PID, jobs []*messages.WaitingJob) {
	clear(f.jobs)
	f.request++
	f.pass = &pass{number: f.request, sender: sender, jobs: jobs, gone: map[int64]bool{}}
	f.judgeSome(ctx)
}

// judgeSome goes on with the pass. Its answer has the verdicts on all jobs that are known at its end: also on those that were
// submitted meanwhile, and by the rules that are in force then.
func (f *filters) judgeSome(ctx actor.Context) {
	p := f.pass
	some := p.jobs[:min(len(p.jobs), passStep)]
	p.jobs = p.jobs[len(some):]
	for _, w := range some {
		if !p.gone[w.Id] {
			f.judgeJob(w)
		}
	}
	if len(p.jobs) > 0 {
		ctx.Send(ctx.Self(), &judgeMore{p.number})
		return
	}
	f.pass = nil
	answer := &messages.JobsJudged{}
	for _, known := range f.jobs {
		if known.verdict != nil {
			answer.Verdicts = append(answer.Verdicts, known.verdict)
		}
	}
	slices.SortFunc(answer.Verdicts, func(a, b *messages.Verdict) int { return int(a.Id - b.Id) })
	ctx.Send(p.sender, answer)
}
