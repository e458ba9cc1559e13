package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/order"
	"lockstep/core/answer"
)

// pendingIDsMax is the maximum number of jobs of one call of LockstepPending.
const pendingIDsMax = 1000

// fillReasons queries the reasons of pending jobs, and sets Why of all jobs. A job that has begun since has an empty one.
func fillReasons(ctx context.Context, daemon client.Querier, jobs []ListedJob) error {
	at := map[int64]*ListedJob{}
	var ids []int64
	for i := range jobs {
		none := ""
		jobs[i].Why = &none
		if slices.Contains(client.PendingStatuses(), jobs[i].Status) {
			at[jobs[i].ID] = &jobs[i]
			ids = append(ids, jobs[i].ID)
		}
	}
	for chunk := range slices.Chunk(ids, pendingIDsMax) {
		var reasons []answer.PendingReason
		if err := daemon.Query(ctx, "LockstepPending", []any{chunk}, &reasons); err != nil {
			return fmt.Errorf("query why jobs wait: %w", err)
		}
		for _, reason := range reasons {
			if job := at[reason.ID]; job != nil {
				job.Why = &reason.Text
			}
		}
	}
	return nil
}

// fillEstimates queries when jobs that have not ended are expected to start and to end. A job without an estimate stays without.
func fillEstimates(ctx context.Context, daemon client.Querier, jobs []ListedJob) error {
	var ids []int64
	for _, job := range jobs {
		if !client.Final(job.Status) {
			ids = append(ids, job.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	estimates, err := order.Query(ctx, daemon, ids)
	for i := range jobs {
		if e, known := estimates[jobs[i].ID]; known {
			jobs[i].Estimate = &e
		}
	}
	return err
}

// estimateColumns are the columns of --estimate: start and end. A job without an estimate has a dash.
func estimateColumns(now time.Time) []column {
	cell := func(text func(order.Shown) string) func(ListedJob) string {
		return func(job ListedJob) string {
			if job.Estimate == nil {
				return "-"
			}
			return text(*job.Estimate)
		}
	}
	return []column{{title: "Estimated start", cell: cell(func(e order.Shown) string { return e.StartText(now) })},
		{title: "Estimated end", cell: cell(func(e order.Shown) string { return e.EndText(now) })}}
}

// pendingTable is ListTable with the reason of each job in place of start and duration, which
// pending jobs do not have.
func pendingTable(jobs []ListedJob, now time.Time, colours term.Palette, width int, estimate bool) string {
	list := columns(jobs, now, colours)
	if estimate {
		list = append(list, estimateColumns(now)...)
	}
	return renderTable(jobs, append(list, column{title: "Why", wide: true, cell: func(job ListedJob) string {
		if job.Why == nil {
			return "-"
		}
		return term.OrDash(term.Visible(*job.Why))
	}}), width)
}
