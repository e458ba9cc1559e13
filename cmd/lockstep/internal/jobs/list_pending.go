package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// pendingIDsMax is the maximum number of jobs of one call of LockstepPending.
const pendingIDsMax = 1000

// fillReasons queries the reasons of pending jobs. A job that has begun since has none.
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

// pendingTable is ListTable with the reason of each job in place of start and duration, which
// pending jobs do not have.
func pendingTable(jobs []ListedJob, now time.Time, colours term.Palette, width int) string {
	return renderTable(jobs, append(columns(jobs, now, colours), column{title: "Why", wide: true, cell: func(job ListedJob) string {
		if job.Why == nil {
			return "-"
		}
		return term.OrDash(term.Visible(*job.Why))
	}}), width)
}
