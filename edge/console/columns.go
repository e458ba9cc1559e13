package console

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/core/answer"
)

// column is a column of the list of jobs. The path of its header sorts by it, or turns the order round.
type column struct {
	Name, Label, Class, Path string
	Sort                     string // as in aria-sort; empty: the rows are sorted by another column
}

// columns are the columns of a list, and the name of that by which its page is sorted; "" by id. The whole list has the order of ids, the
// newest or the oldest first: the other columns sort the jobs of one page.
func columns(filter url.Values, oldestFirst bool) (all []column, sorted string) {
	sorted, descending := strings.CutPrefix(filter.Get("sort"), "-")
	if rowOrders[sorted] == nil {
		sorted = ""
	}
	unsorted := without(filter, "sort")
	order := column{Name: "id", Label: "Job", Path: with(unsorted, "order", "oldest")}
	if oldestFirst {
		order.Path = with(unsorted, "order", "")
	}
	if sorted == "" {
		order.Sort = direction(!oldestFirst)
	} else {
		order.Path = with(unsorted, "order", filter.Get("order"))
	}
	all = append(all, order)
	for _, c := range []column{{Name: "status", Label: "Status"}, {Name: "what", Label: "What"}, {Name: "why", Label: "Why or result"},
		{Name: "user", Label: "User"}, {Name: "priority", Label: "Priority", Class: "right"}, {Name: "received", Label: "Received"},
		{Name: "time", Label: "Time", Class: "right"}} {
		c.Path = with(filter, "sort", c.Name)
		if c.Name == sorted {
			c.Sort = direction(descending)
			if !descending {
				c.Path = with(filter, "sort", "-"+c.Name)
			}
		}
		all = append(all, c)
	}
	return all, sorted
}

func direction(descending bool) string {
	if descending {
		return "descending"
	}
	return "ascending"
}

// rowOrders compare rows by a column.
var rowOrders = map[string]func(a, b jobRow) int{
	"status": func(a, b jobRow) int {
		return cmp.Compare(slices.Index(statuses, a.Status), slices.Index(statuses, b.Status))
	},
	"what": func(a, b jobRow) int {
		return strings.Compare(a.Name+answer.Work(a.Summary), b.Name+answer.Work(b.Summary))
	},
	"why":      func(a, b jobRow) int { return strings.Compare(a.Why, b.Why) },
	"user":     func(a, b jobRow) int { return strings.Compare(a.Who, b.Who) },
	"priority": func(a, b jobRow) int { return cmp.Compare(a.Priority, b.Priority) },
	"received": func(a, b jobRow) int { return a.Received.Compare(b.Received.Time) },
	"time":     func(a, b jobRow) int { return cmp.Compare(a.Took, b.Took) },
}

// sortRows sorts the rows of a page by a column, downwards if its name begins with "-". Rows that are equal keep their order.
func sortRows(rows []jobRow, by string) {
	name, descending := strings.CutPrefix(by, "-")
	compare := rowOrders[name]
	if compare == nil {
		return
	}
	if descending {
		slices.SortStableFunc(rows, func(a, b jobRow) int { return compare(b, a) })
		return
	}
	slices.SortStableFunc(rows, compare)
}

// took is how long a job waits, runs, or ran.
func took(j answer.ListedJob, now time.Time) time.Duration {
	switch {
	case j.Started.IsZero() && j.Ended.IsZero():
		return now.Sub(j.Received.Time)
	case j.Started.IsZero():
		return 0
	case j.Ended.IsZero():
		return now.Sub(j.Started.Time)
	}
	return j.Ended.Sub(j.Started.Time)
}
