package filters

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/filter"
)

const (
	// MatchesShown is the maximum number of jobs that the answer about a rule names.
	MatchesShown = 20
	// jobsTaken is how many jobs one answer to TakeJobs has.
	jobsTaken = 20_000
)

// TakeJobs asks for the rules in force, and for unfinished jobs after an id. The asker judges them, so that the filter engine goes on
// meanwhile.
type TakeJobs struct {
	Request uint64
	After   int64
}

// JobsTaken answers TakeJobs with the present rules and some unfinished jobs. Its values do not change.
type JobsTaken struct {
	Request uint64
	Rules   *filter.Set
	Declare filter.Declare
	Jobs    []*filter.Subject // by ascending id
	More    bool              // there are jobs after the last one
}

// GetRequest is the number of the question.
func (m *JobsTaken) GetRequest() uint64 { return m.Request }

func (f *filters) takeJobs(ctx actor.Context, sender *actor.PID, m *TakeJobs) {
	answer := &JobsTaken{Request: m.Request, Rules: f.rules, Declare: f.declare}
	at, _ := slices.BinarySearch(f.order, m.After+1)
	for ; at < len(f.order) && len(answer.Jobs) < jobsTaken; at++ {
		if e := f.jobs[f.order[at]]; e != nil {
			answer.Jobs = append(answer.Jobs, e.subject)
		}
	}
	answer.More = at < len(f.order)
	ctx.Send(sender, answer)
}
