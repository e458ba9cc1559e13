package luxi

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

const (
	// sliceWork is the work of a connection's actor between two messages, in steps of about 20 ns: 5 ms.
	sliceWork = 250_000
	// rowWork is the work of encoding one job of an answer.
	rowWork = 100
	// jobsTaken is how many jobs of the queue one question takes.
	jobsTaken = 20_000
)

// proceed is sent by a connection's actor to itself for the next slice of the request with this number. Meanwhile it hears that its client
// has gone, and stops.
type proceed struct{ request uint64 }

// slice is the work that may be done before the next message.
func (c *call) slice() int { return cmp.Or(c.config.SliceWork, sliceWork) }

// beginWork begins work that needs no further answer, within answerTimeout. A repeated answer to the last question is dropped.
func (c *call) beginWork(ctx actor.Context) {
	c.session.Begin()
	c.setTimer(ctx, answerTimeout)
}

// later goes on with the work after the messages that have arrived, unless the call ends.
func (c *call) later(ctx actor.Context, next func(actor.Context)) {
	if c.ended {
		return
	}
	c.next = next
	ctx.Send(ctx.Self(), &proceed{c.session.Number()})
}

// takeRows takes the rows of all jobs of the queue by ascending id, some at a time, and hands them to then. A job that is
// there all the time has one row; others may come or go meanwhile.
func (c *call) takeRows(ctx actor.Context, then func(actor.Context, []*messages.JobRow)) {
	var pages [][]*messages.JobRow
	var take func(ctx actor.Context, cursor int64)
	take = func(ctx actor.Context, cursor int64) {
		q := c.toQueue(func(number uint64) any { return &messages.ListJobs{Request: number, Limit: jobsTaken, Cursor: cursor} })
		ask(c, ctx, q, func(ctx actor.Context, a *messages.ListJobsResult) {
			if pages = append(pages, a.Rows); len(a.Rows) == jobsTaken {
				take(ctx, a.Rows[len(a.Rows)-1].Id)
				return
			}
			c.beginWork(ctx)
			then(ctx, slices.Concat(pages...))
		})
	}
	take(ctx, 0)
}

// takeRowsOf takes the rows of the jobs with these ids, some at a time.
func (c *call) takeRowsOf(ctx actor.Context, ids []int64, then func(actor.Context, []*messages.JobRow)) {
	rows := make([]*messages.JobRow, 0, len(ids))
	var take func(ctx actor.Context)
	take = func(ctx actor.Context) {
		c.askRows(ctx, ids[len(rows):min(len(ids), len(rows)+jobsTaken)], func(ctx actor.Context, taken []*messages.JobRow) {
			if rows = append(rows, taken...); len(rows) < len(ids) {
				take(ctx)
				return
			}
			c.beginWork(ctx)
			then(ctx, rows)
		})
	}
	take(ctx)
}
