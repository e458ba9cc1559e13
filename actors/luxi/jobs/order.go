package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/scheduler"
	"lockstep/core/answer"
	"lockstep/core/forecast"
	"lockstep/core/job"
	"lockstep/core/wire"
	"lockstep/messages"
)

const (
	// playMax is how long estimates are computed for one call.
	playMax = 50 * time.Millisecond
	// previewPriority is the priority of previews: Ganeti's OP_PRIO_HIGH.
	previewPriority = -10
)

// lockstepOrder takes [[id, ...] or null, id or null]. The answer is an answer.Order: the expected starts and ends of
// these jobs, or of the first 1,000; and what would change if the other job had high priority. This actor plays the order
// forward, and the scheduler goes on meanwhile.
func lockstepOrder(c *request, ctx actor.Context, args []json.RawMessage) error {
	var asked []jobID
	var high *jobID
	if err := wire.Arguments(args, &asked, &high); err != nil {
		return fmt.Errorf("LockstepOrder: %w", err)
	}
	if len(asked) > scheduler.SnapshotMax {
		return fmt.Errorf("LockstepOrder: %d jobs in one call, at most %d", len(asked), scheduler.SnapshotMax)
	}
	ids := make([]int64, len(asked))
	for i, id := range asked {
		ids[i] = int64(id)
	}
	included := ids
	if high != nil {
		included = append(slices.Clone(ids), int64(*high))
	}
	c.askSnapshot(ctx, scheduler.TakeSnapshot{Ids: included, NotDue: asked == nil}, func(ctx actor.Context, s *scheduler.Snapshot) {
		world := s.World()
		estimates := forecast.Estimates(world, c.playTime())
		order := answer.Order{Estimate: true, Order: string(s.Order()), Jobs: []answer.Estimate{}}
		for _, e := range estimates {
			if asked == nil || slices.Contains(ids, int64(e.ID)) {
				order.Jobs = append(order.Jobs, estimateAnswer(e))
			}
		}
		if high != nil {
			p, pending := forecast.Prefer(world, job.ID(*high), previewPriority, estimates, c.playTime())
			if !pending {
				c.Fail(ctx, messages.JobLostFailure(fmt.Sprintf("Job %d is not pending", int64(*high))))
				return
			}
			order.Preview = previewAnswer(p)
		}
		c.Succeed(ctx, order)
	})
	return nil
}

// playTime reports whether half of playMax has not passed yet.
func (c *request) playTime() func() bool {
	clock := c.Config.Env.Clock()
	end := clock.Now().Add(playMax / 2)
	return func() bool { return clock.Now().Before(end) }
}

func estimateAnswer(e forecast.Estimate) answer.Estimate {
	a := answer.Estimate{Estimate: true, ID: int64(e.ID), Running: e.Running, Start: rangeAnswer(e.Start), End: rangeAnswer(e.End),
		Unknown: string(e.Obstacle), UnknownOf: e.By, WaitsFor: string(e.Wait.Kind)}
	if !e.LaterThan.IsZero() {
		a.LaterThan = &answer.Time{Time: e.LaterThan}
	}
	for _, id := range e.Wait.Jobs {
		a.WaitsForJobs = append(a.WaitsForJobs, int64(id))
	}
	return a
}

func rangeAnswer(r forecast.Range) *answer.TimeRange {
	if r.Likely.IsZero() {
		return nil
	}
	return &answer.TimeRange{From: answer.Time{Time: r.From}, Likely: answer.Time{Time: r.Likely}, To: answer.Time{Time: r.To}}
}

func previewAnswer(p forecast.Preview) *answer.OrderPreview {
	a := &answer.OrderPreview{ID: int64(p.Then.ID), Now: estimateAnswer(p.Now), Then: estimateAnswer(p.Then), Changed: []answer.OrderChange{}}
	for _, c := range p.Changed {
		a.Changed = append(a.Changed, answer.OrderChange{Now: estimateAnswer(c.Now), Then: estimateAnswer(c.Then)})
	}
	return a
}
