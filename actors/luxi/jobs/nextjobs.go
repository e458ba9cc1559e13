package jobs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/record"
	"lockstep/core/wire"
	"lockstep/messages"
)

// Bounds of LockstepNextJobs: jobs of the answer, queued jobs that the scheduler is asked about, and jobs of the queue
// that are looked at.
const (
	nextMax         = 100
	nextExplained   = 1000
	nextExaminedMax = 40_000
)

// lockstepNextJobs takes [limit]. The answer is an answer.NextJobs: of the oldest queued jobs, those that wait for
// their turn only, in the order in which they start with the present weights.
func lockstepNextJobs(c *request, ctx actor.Context, args []json.RawMessage) error {
	var limit int
	if err := wire.Arguments(args, &limit); err != nil {
		return fmt.Errorf("LockstepNextJobs: %w", err)
	}
	if limit < 1 || limit > nextMax {
		return fmt.Errorf("LockstepNextJobs: %d is not between 1 and %d", limit, nextMax)
	}
	(&nextJobs{request: c, limit: limit}).ask(ctx)
	return nil
}

type nextJobs struct {
	*request
	limit    int
	cursor   int64
	examined int
	queued   []*messages.JobInfo
	more     bool
}

func (n *nextJobs) ask(ctx actor.Context) {
	q := n.ToQueue(func(number uint64) any {
		return &messages.ListJobs{Request: number, Limit: pageWindow, Cursor: n.cursor}
	})
	call.Ask(n.Call, ctx, q, func(ctx actor.Context, a *messages.ListJobsResult) {
		now := n.Config.Env.Clock().Now().UnixMicro()
		for _, row := range a.Rows {
			n.cursor = row.Id
			n.examined++
			due := row.Info.DueUs // a job that is not due has no place in the order
			if due <= now && (query.CountedStatus(row.Info) == job.Queued || due > 0) {
				n.queued = append(n.queued, row.Info)
			}
		}
		switch n.more = len(a.Rows) == pageWindow; {
		case len(n.queued) >= nextExplained:
			n.more, n.queued = true, n.queued[:nextExplained]
			n.explain(ctx)
		case n.more && n.examined < nextExaminedMax:
			n.ask(ctx)
		default:
			n.explain(ctx)
		}
	})
}

func (n *nextJobs) explain(ctx actor.Context) {
	ids := make([]int64, len(n.queued))
	for i, info := range n.queued {
		ids[i] = info.Id
	}
	n.askExplanations(ctx, ids, func(ctx actor.Context, explained []*messages.JobExplanation) {
		result := answer.NextJobs{Jobs: []answer.NextJob{}, Examined: len(ids), More: n.more}
		for i, e := range explained {
			if next, is := nextJob(n.queued[i], Reasons(e.Reasons)); is {
				result.Jobs = append(result.Jobs, next)
			}
		}
		slices.SortStableFunc(result.Jobs, func(a, b answer.NextJob) int { return cmp.Compare(a.Order.Position, b.Order.Position) })
		result.Jobs = result.Jobs[:min(len(result.Jobs), n.limit)]
		n.Succeed(ctx, result)
	})
}

// nextJob is a job that has a place in the order; false if it has none, or if its exact place is not known.
func nextJob(info *messages.JobInfo, reasons []answer.Reason) (answer.NextJob, bool) {
	at := slices.IndexFunc(reasons, func(r answer.Reason) bool { return r.Kind == answer.WhyOrder })
	if at < 0 || reasons[at].AtLeast {
		return answer.NextJob{}, false
	}
	return answer.NextJob{ID: info.Id, Name: info.Name, User: info.User, UserName: record.User(info.User),
		Priority: int(info.Priority), Summary: info.Summary,
		Received: answer.TimeOf(info.ReceivedUs), Order: reasons[at], Limits: slices.Delete(slices.Clone(reasons), at, at+1)}, true
}
