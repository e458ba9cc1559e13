package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// pendingIDsMax is how many jobs one call to LockstepPending may be about.
const pendingIDsMax = 1000

// fillReasons asks why those jobs wait that do. A job that has begun meanwhile has none.
func fillReasons(ctx context.Context, daemon asker, jobs []listedJob) error {
	at := map[int64]*listedJob{}
	var ids []int64
	for i := range jobs {
		none := ""
		jobs[i].Why = &none
		if slices.Contains(pendingStatuses(), jobs[i].Status) {
			at[jobs[i].ID] = &jobs[i]
			ids = append(ids, jobs[i].ID)
		}
	}
	for chunk := range slices.Chunk(ids, pendingIDsMax) {
		var pairs [][]json.RawMessage
		if err := daemon.ask(ctx, "LockstepPending", []any{chunk}, &pairs); err != nil {
			return fmt.Errorf("ask why jobs wait: %w", err)
		}
		for _, pair := range pairs {
			var id int64
			var why string
			if len(pair) != 2 {
				return fmt.Errorf("the daemon answered LockstepPending with %d values for a job", len(pair))
			}
			if err := scan(pair, &id, &why); err != nil {
				return err
			}
			if job := at[id]; job != nil {
				job.Why = &why
			}
		}
	}
	return nil
}

// pendingTable is listTable with why each job waits, in place of when it began and how
// long it took: those that wait have neither, and the reason needs room.
func pendingTable(jobs []listedJob, now time.Time, colours palette, width int) string {
	kept := len(listHeader()) - 2
	rows := make([]table.Row, 0, len(jobs))
	for _, job := range jobs {
		why := ""
		if job.Why != nil {
			why = visible(*job.Why)
		}
		rows = append(rows, append(listRow(job, now, colours)[:kept], orDash(why)))
	}
	return narrowTable(append(listHeader()[:kept], "Why"), rows, []int{summaryColumn, kept}, []int{2, 4}, width)
}
