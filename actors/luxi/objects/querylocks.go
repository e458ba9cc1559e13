package objects

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/locks"
	"lockstep/actors/luxi/call"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/natural"
	"lockstep/core/query"
	"lockstep/messages"
)

// queryLocks answers a Query for the lock monitor (queue.md 2.6). A job for whose end other jobs wait has a row like a
// lock (designs.md "Status while waiting for dependencies").
func queryLocks(c *call.Call, ctx actor.Context, fields []string, filter json.RawMessage) error {
	q, err := query.Locks.NewQuery(fields, filter)
	if err != nil {
		return err
	}
	call.AskLocks(c, ctx, locks.ListRows{}, func(ctx actor.Context, rows []answer.Lock) {
		askMarked(c, ctx, func(ctx actor.Context, a *messages.ListDependenciesResult) {
			answerItems(c, ctx, q, false, lockItems(withoutFreeLocks(withMarked(rows, a.Blocked)), a.Jobs))
		})
	})
	return nil
}

// withMarked is the rows with the jobs that are shown as waiting for locks, at the locks that keep them from their start. The
// lock manager and the scheduler answer at different times: a job that has asked for its locks meanwhile is there once.
func withMarked(rows []answer.Lock, marked []*messages.LockBlockedJob) []answer.Lock {
	rows = slices.Clone(rows)
	at := make(map[string]int, len(rows))
	for i := range rows {
		rows[i].Pending = slices.Clone(rows[i].Pending)
		at[rows[i].Name] = i
	}
	for _, b := range marked {
		owner := lock.Owner{Job: job.ID(b.Id)}.IdentityJSON()
		for _, wanted := range b.Wanted {
			i, known := at[wanted.Lock]
			if !known {
				i = len(rows)
				at[wanted.Lock] = i
				rows = append(rows, answer.Lock{Name: wanted.Lock})
			}
			if !slices.ContainsFunc(rows[i].Pending, func(w answer.LockWaiter) bool { return w.Owner == owner }) {
				rows[i].Pending = append(rows[i].Pending, answer.LockWaiter{Mode: wantedMode(wanted).String(), Owner: owner})
			}
		}
	}
	return rows
}

func wantedMode(l *messages.WantedLock) lock.Mode {
	if l.Exclusive {
		return lock.Exclusive
	}
	return lock.Shared
}

// withoutFreeLocks is the rows that Ganeti knows.
func withoutFreeLocks(rows []answer.Lock) []answer.Lock {
	return slices.DeleteFunc(slices.Clone(rows), func(row answer.Lock) bool {
		l, err := lock.ParseLock(row.Name)
		return err == nil && l.IsFree()
	})
}

func lockItems(rows []answer.Lock, jobs []*messages.JobDependencies) []*query.LockItem {
	items := dependencyRows(jobs)
	for _, row := range rows {
		item := &query.LockItem{Name: row.Name, Mode: row.Mode, Owners: row.Owners}
		for _, w := range row.Pending {
			item.Pending = append(item.Pending, query.LockWaiters{Mode: w.Mode, Owners: []string{w.Owner}})
		}
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b *query.LockItem) int { return natural.Compare(a.Name, b.Name) })
	return items
}

// dependencyRows are the rows of jobs for whose end other jobs wait. The mode of a wait is the list of final statuses
// that satisfy the dependency; an empty list means success and error.
func dependencyRows(jobs []*messages.JobDependencies) []*query.LockItem {
	awaited := map[int64]*query.LockItem{}
	var items []*query.LockItem
	for _, w := range jobs {
		for _, on := range w.On {
			item := awaited[on.Job]
			if item == nil {
				item = &query.LockItem{Name: jobRowName(on.Job)}
				awaited[on.Job] = item
				items = append(items, item)
			}
			ends := strings.Join(on.Statuses, ",")
			if ends == "" {
				ends = job.Success.String() + "," + job.Error.String()
			}
			k := slices.IndexFunc(item.Pending, func(p query.LockWaiters) bool { return p.Mode == ends })
			if k < 0 {
				k = len(item.Pending)
				item.Pending = append(item.Pending, query.LockWaiters{Mode: ends})
			}
			item.Pending[k].Owners = append(item.Pending[k].Owners, jobRowName(w.Id))
		}
	}
	return items
}

// jobRowName is the name of a job in the lock monitor.
func jobRowName(id int64) string { return "job/" + job.ID(id).String() }
