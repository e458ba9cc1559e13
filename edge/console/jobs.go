package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lockstep/core/answer"
	"lockstep/edge/rapi"
)

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
	Status, Name, User, Opcode, Reason, Since, Order string
	Archived                                         bool
}

// jobRow is one row of the list.
type jobRow struct {
	answer.ListedJob
	Why  string
	Who  string
	Live bool // it has not ended
}

func (x *Console) jobs(q *request) error {
	values := q.URL.Query()
	wanted, err := rapi.JobsQuery(values)
	if err != nil {
		return err
	}
	page, err := ask[answer.JobPage](q, rapi.Large, "LockstepPageJobs", wanted)
	if err != nil {
		return err
	}
	status, err := askAged[answer.QueueStatus](q, statusFresh, rapi.Short, "LockstepStatus")
	if err != nil {
		return err
	}
	v := jobsView{Examined: page.Examined, Filter: filterForm{Status: values.Get("status"), Name: values.Get("name"), User: values.Get("user"),
		Opcode: values.Get("opcode"), Reason: values.Get("reason"), Since: values.Get("since"), Order: values.Get("order"), Archived: wanted.Archived}}
	if v.Rows, err = x.rows(q, page.Jobs); err != nil {
		return err
	}
	filter := filterOf(values)
	v.Query = filter.Encode()
	v.Filtered = len(filter) > 0
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
	for _, name := range []string{"status", "name", "user", "opcode", "reason", "since", "archived", "order", "limit"} {
		for _, value := range values[name] {
			if value != "" {
				kept.Add(name, value)
			}
		}
	}
	return kept
}

// tabs select by status, with the other parts of the filter.
func tabs(filter url.Values, status answer.QueueStatus) []tab {
	var all []tab
	total := int64(0)
	for _, n := range status.Jobs {
		total += n
	}
	counted := len(filter) == 0 || len(filter) == 1 && filter.Has("status")
	add := func(name, label string, count int64) {
		other := url.Values{}
		for key, value := range filter {
			other[key] = value
		}
		other.Del("status")
		if name != "" {
			other.Set("status", name)
		}
		path := "/ui/jobs"
		if len(other) > 0 {
			path += "?" + other.Encode()
		}
		all = append(all, tab{name, label, path, count, filter.Get("status") == name, counted})
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
		rows[i] = jobRow{ListedJob: j, Live: !rapi.IsFinal(j.Status), Who: shortUser(j.User)}
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
	for i := range rows {
		if at := slices.IndexFunc(reasons, func(r answer.PendingReason) bool { return r.ID == rows[i].ID }); at >= 0 {
			rows[i].Why = reasons[at].Text
		}
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

// Actions on several jobs.
const (
	actionCancel   = "cancel"
	actionPriority = "priority"
	actionArchive  = "archive"
	actionRerun    = "rerun"
	actionHold     = "hold"
	actionRelease  = "release"
	actionKill     = "kill"
)

// bulkMax bounds the jobs of one action.
const bulkMax = 1000

// confirmView is the data of the question before an action on several jobs.
type confirmView struct {
	Action   string
	Verb     string
	IDs      []int64
	Count    int
	More     bool // more jobs match than one action takes
	Priority string
	Back     string
}

var bulkVerbs = map[string]string{actionCancel: "Cancel", actionPriority: "Change the priority of", actionArchive: "Archive", actionRerun: "Run again",
	actionHold: "Hold", actionRelease: "Release"}

// confirmJobs shows how many jobs an action concerns, before it is done.
func (x *Console) confirmJobs(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	v := confirmView{Action: q.PostForm.Get("action"), Priority: q.PostForm.Get("priority"), Back: "/ui/jobs?" + q.PostForm.Get("query")}
	v.Verb = bulkVerbs[v.Action]
	if v.Verb == "" {
		return badRequest("Choose an action.")
	}
	var err error
	if q.PostForm.Get("all") != "" {
		v.IDs, v.More, err = x.matching(q, q.PostForm.Get("query"))
	} else {
		v.IDs, err = idsOf(q.PostForm["id"])
	}
	if err != nil {
		return err
	}
	if len(v.IDs) == 0 {
		return badRequest("No job is selected.")
	}
	v.Count = len(v.IDs)
	q.render(http.StatusOK, "confirm", view{Title: v.Verb + " jobs", Section: "jobs", Data: v})
	return nil
}

// matching are the ids of the jobs of the queue that a filter selects, at most bulkMax.
func (x *Console) matching(q *request, query string) (ids []int64, more bool, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, false, badRequest("The filter cannot be read.")
	}
	values.Del("cursor")
	wanted, err := rapi.JobsQuery(values)
	if err != nil {
		return nil, false, err
	}
	wanted.Limit, wanted.Archived = bulkMax, false
	for range 100 {
		page, err := ask[answer.JobPage](q, rapi.Large, "LockstepPageJobs", wanted)
		if err != nil {
			return nil, false, err
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if wanted.Cursor = page.Cursor; page.Cursor == 0 || len(ids) >= bulkMax {
			break
		}
	}
	more = len(ids) > bulkMax || wanted.Cursor != 0
	return ids[:min(len(ids), bulkMax)], more, nil
}

func idsOf(texts []string) ([]int64, error) {
	if len(texts) > bulkMax {
		return nil, badRequest("One action takes at most %d jobs.", bulkMax)
	}
	ids := make([]int64, len(texts))
	for i, text := range texts {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, badRequest("%s is no job id.", strconv.Quote(shorten(text, 20)))
		}
		ids[i] = id
	}
	return ids, nil
}

// applyJobs does an action on several jobs, and counts those that permitted it.
func (x *Console) applyJobs(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	ids, err := idsOf(q.PostForm["id"])
	if err != nil {
		return err
	}
	action := q.PostForm.Get("action")
	if bulkVerbs[action] == "" {
		return badRequest("There is no action %s.", strconv.Quote(shorten(action, 20)))
	}
	for _, id := range ids {
		if _, _, err := x.act(q, action, id); err != nil {
			return fmt.Errorf("job %d: %w", id, err)
		}
	}
	back := q.PostForm.Get("back")
	if !strings.HasPrefix(back, "/ui/jobs") {
		back = "/ui/jobs"
	}
	http.Redirect(q.w, q.Request, withDone(back, "bulk"), http.StatusSeeOther)
	return nil
}

// withDone adds the name of a notice to a path.
func withDone(path, done string) string {
	u, err := url.Parse(path)
	if err != nil {
		return rapi.ConsolePath
	}
	values := u.Query()
	values.Set("done", done)
	u.RawQuery = values.Encode()
	return u.RequestURI()
}

// act does one action on a job. done is the name of its notice, next the job to show.
func (x *Console) act(q *request, action string, id int64) (done string, next int64, err error) {
	outcome := func(name, method string, args ...any) (string, int64, error) {
		var result []json.RawMessage
		if err := q.do(rapi.Long, &result, method, args...); err != nil {
			return "", id, err
		}
		if len(result) == 0 || string(result[0]) != "true" {
			name = "notdone"
		}
		return name, id, nil
	}
	switch action {
	case actionCancel:
		return outcome("canceled", "CancelJob", id, false)
	case actionKill:
		return outcome("killing", "CancelJob", id, true)
	case actionHold:
		return outcome("held", "LockstepHoldJob", id, true)
	case actionRelease:
		return outcome("released", "LockstepHoldJob", id, false)
	case actionPriority:
		priority, err := strconv.Atoi(strings.TrimSpace(q.PostForm.Get("priority")))
		if err != nil {
			return "", id, badRequest("The priority is a number from -20, the most urgent, to 19.")
		}
		return outcome("priority", "ChangeJobPriority", id, priority)
	case actionArchive:
		var archived bool
		if err := q.do(rapi.Short, &archived, "ArchiveJob", id); err != nil {
			return "", id, err
		}
		if !archived {
			return "notdone", id, nil
		}
		return "archived", id, nil
	case actionRerun:
		next, err := x.rerun(q, id)
		return "submitted", next, err
	}
	return "", id, badRequest("There is no action %s.", strconv.Quote(shorten(action, 20)))
}

// jobAction does one action on one job.
func (x *Console) jobAction(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	done, next, err := x.act(q, q.PathValue("action"), id)
	if err != nil {
		return err
	}
	http.Redirect(q.w, q.Request, fmt.Sprintf("/ui/jobs/%d?done=%s", next, done), http.StatusSeeOther)
	return nil
}

// jobID is the id in the path.
func (q *request) jobID() (int64, error) {
	id, err := strconv.ParseInt(q.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return 0, errNotFound
	}
	return id, nil
}
