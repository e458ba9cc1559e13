package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/core/answer"
	"lockstep/core/why"
	"lockstep/edge/rapi"
)

// jobsOfPage is the number of jobs of a page of the list.
const jobsOfPage = 500

// jobsView is the data of the list of jobs.
type jobsView struct {
	Tabs     []tab
	Rows     []jobRow
	Filter   filterForm
	Query    string // the filter as a query
	Next     string // path of the next page; empty: none
	First    string // path of the first page; empty: this is it
	Examined int
	Partial  bool // the page ended because of the bound of one scan
	Filtered bool
	Detailed bool // the filter has more than a status and a search
	Columns  []column
	Sorted   string // name of the column by which the rows of this page are sorted; empty: by id
}

// tab is a selection by status.
type tab struct {
	Name    string
	Label   string
	Path    string
	Count   int64
	Current bool
	Counted bool
}

// filterForm are the fields of the filter.
type filterForm struct {
	Status, Search, Name, User, Opcode, Reason, Since, Order, Sort string
	Archived                                                       bool
}

// jobRow is one row of the list.
type jobRow struct {
	answer.ListedJob
	Why  string // why it waits, or its result
	Who  string
	Live bool          // it has not ended
	Took time.Duration // how long it waits, runs or ran
}

func (x *Console) jobs(q *request) error {
	values := q.URL.Query()
	wanted, err := rapi.JobsQuery(values)
	if err != nil {
		return err
	}
	if wanted.Limit == 0 {
		wanted.Limit = jobsOfPage
	}
	page, err := ask[answer.JobPage](q, rapi.Page, "LockstepPageJobs", wanted)
	if err != nil {
		return err
	}
	status, err := askAged[answer.QueueStatus](q, statusFresh, rapi.Short, "LockstepStatus")
	if err != nil {
		return err
	}
	v := jobsView{Examined: page.Examined, Filter: filterForm{
		Status:   values.Get("status"),
		Search:   values.Get("search"),
		Name:     values.Get("name"),
		User:     values.Get("user"),
		Opcode:   values.Get("opcode"),
		Reason:   values.Get("reason"),
		Since:    values.Get("since"),
		Order:    values.Get("order"),
		Sort:     values.Get("sort"),
		Archived: wanted.Archived,
	}}
	if v.Rows, err = x.rows(q, page.Jobs); err != nil {
		return err
	}
	filter := filterOf(values)
	v.Query = filter.Encode()
	v.Filtered, v.Detailed = selects(filter), selects(filter, "status", "search")
	v.Columns, v.Sorted = columns(filter, wanted.OldestFirst)
	sortRows(v.Rows, filter.Get("sort"))
	if page.Cursor != 0 {
		next := filterOf(values)
		next.Set("cursor", strconv.FormatInt(page.Cursor, 10))
		v.Next = "/ui/jobs?" + next.Encode()
		v.Partial = len(page.Jobs) == 0
	}
	if wanted.Cursor != 0 {
		v.First = "/ui/jobs?" + v.Query
	}
	v.Tabs = tabs(filter, status)
	live := "jobs"
	if wanted.Cursor != 0 {
		live = "rows" // no new job comes to this page
	}
	return q.show("jobs", "Jobs", "jobs", live, v)
}

// filterOf are the arguments of a list that select jobs, without those that are empty.
func filterOf(values url.Values) url.Values {
	kept := url.Values{}
	for _, name := range []string{"status", "search", "name", "user", "opcode", "reason", "since", "archived", "order", "limit", "sort"} {
		for _, value := range values[name] {
			if value != "" {
				kept.Add(name, value)
			}
		}
	}
	return kept
}

// selects reports whether a filter leaves jobs out, apart from these of its arguments.
func selects(filter url.Values, besides ...string) bool {
	for name := range filter {
		if !slices.Contains([]string{"order", "limit", "sort", "archived"}, name) && !slices.Contains(besides, name) {
			return true
		}
	}
	return false
}

// without is a filter without one of its arguments.
func without(filter url.Values, name string) url.Values {
	other := maps.Clone(filter)
	other.Del(name)
	return other
}

// with is a filter with another value of one of its arguments, as the path of its page.
func with(filter url.Values, name, value string) string {
	other := without(filter, name)
	if value != "" {
		other.Set(name, value)
	}
	if len(other) == 0 {
		return "/ui/jobs"
	}
	return "/ui/jobs?" + other.Encode()
}

// tabs select by status, with the other parts of the filter. They show the number of jobs only without another filter.
func tabs(filter url.Values, status answer.QueueStatus) []tab {
	var all []tab
	total := int64(0)
	for _, n := range status.Jobs {
		total += n
	}
	counted := !selects(filter, "status") && !filter.Has("archived")
	add := func(name, label string, count int64) {
		all = append(all, tab{name, label, with(filter, "status", name), count, filter.Get("status") == name, counted})
	}
	add("", "all", total)
	for _, name := range statuses {
		if name != "canceling" || status.Jobs[name] > 0 {
			add(name, name, status.Jobs[name])
		}
	}
	return all
}

// rows are the rows of these jobs, with a few words why they wait.
func (x *Console) rows(q *request, jobs []answer.ListedJob) ([]jobRow, error) {
	rows := make([]jobRow, len(jobs))
	var pending []int64
	for i, j := range jobs {
		rows[i] = jobRow{ListedJob: j, Why: why.Note(&j, "", time.Now()), Live: !rapi.IsFinal(j.Status), Who: shortUser(j.User),
			Took: took(j, time.Now())}
		if rows[i].Live && j.Status != "running" {
			pending = append(pending, j.ID)
		}
	}
	if pending == nil {
		return rows, nil
	}
	reasons, err := ask[[]answer.PendingReason](q, rapi.Short, "LockstepPending", pending)
	if err != nil {
		return nil, err
	}
	texts := make(map[int64]string, len(reasons))
	for _, r := range reasons {
		texts[r.ID] = r.Text
	}
	for i := range rows {
		rows[i].Why = why.Note(&rows[i].ListedJob, texts[rows[i].ID], time.Now())
	}
	return rows, nil
}

// shortUser is the name in "uid=1000(alice), pid=7" or "user=deploy".
func shortUser(text string) string {
	text, _, _ = strings.Cut(text, ",")
	if name, is := strings.CutPrefix(text, "user="); is {
		return name
	}
	if _, rest, found := strings.Cut(text, "("); found {
		return strings.TrimSuffix(rest, ")")
	}
	return text
}

// jobID is the id in the path. The error is errNotFound.
func (q *request) jobID() (int64, error) {
	id, err := strconv.ParseInt(q.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, errNotFound
	}
	return id, nil
}
