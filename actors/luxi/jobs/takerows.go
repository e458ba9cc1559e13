package jobs

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/luxi/call"
	"lockstep/messages"
)

const (
	// rowWork is the work of encoding one job of an answer, in the unit of Call.Slice.
	rowWork = 100
	// jobsTaken is how many jobs of the queue one question takes.
	jobsTaken = 20_000
)

// takeRows takes the rows of all jobs of the queue by ascending id, some at a time, and hands them to then. A job that is
// there all the time has one row; others may come or go meanwhile.
func (c *request) takeRows(ctx actor.Context, then func(actor.Context, []*messages.JobRow)) {
	var pages [][]*messages.JobRow
	var take func(ctx actor.Context, cursor int64)
	take = func(ctx actor.Context, cursor int64) {
		q := c.ToQueue(func(number uint64) any { return &messages.ListJobs{Request: number, Limit: jobsTaken, Cursor: cursor} })
		call.Ask(c.Call, ctx, q, func(ctx actor.Context, a *messages.ListJobsResult) {
			if pages = append(pages, a.Rows); len(a.Rows) == jobsTaken {
				take(ctx, a.Rows[len(a.Rows)-1].Id)
				return
			}
			c.Begin(ctx)
			then(ctx, slices.Concat(pages...))
		})
	}
	take(ctx, 0)
}

// takeRowsOf takes the rows of the jobs with these ids, jobsTaken in each question, and passes all to then.
func (c *request) takeRowsOf(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobRow)) {
	rows := make([]*messages.JobRow, 0, len(ids))
	var take func(ctx actor.Context)
	take = func(ctx actor.Context) {
		c.AskRows(ctx, ids[len(rows):min(len(ids), len(rows)+jobsTaken)], func(ctx actor.Context, taken []*messages.JobRow) {
			if rows = append(rows, taken...); len(rows) < len(ids) {
				take(ctx)
				return
			}
			c.Begin(ctx)
			then(ctx, rows)
		})
	}
	take(ctx)
}
