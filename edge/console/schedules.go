package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/opcode"
	"lockstep/core/words"
	"lockstep/edge/rapi"
)

// Orders for a schedule.
const (
	orderRun    = "run"
	orderPause  = "pause"
	orderResume = "resume"
	orderRemove = "remove"
)

// schedulesOfPage is the number of schedules of a page of the list.
const schedulesOfPage = 100

// jobLinksMax bounds the links to jobs of one due time.
const jobLinksMax = 10

// schedulesView is the data of the list of schedules.
type schedulesView struct {
	Rows        []scheduleRow
	Search      string
	Next, First string // paths of pages; empty: there is none, this is it
}

type scheduleRow struct {
	answer.Schedule
	Last []part // what became of the last due time
}

func (x *Console) schedules(q *request) error {
	values := q.URL.Query()
	page, err := rapi.SchedulesQuery(values)
	if err != nil {
		return err
	}
	if !values.Has("limit") {
		page.Limit = schedulesOfPage
	}
	all, err := askAged[answer.Schedules](q, statusFresh, rapi.Page, "LockstepSchedules", nil, page)
	if err != nil {
		return err
	}
	v := schedulesView{Search: page.Search}
	for _, s := range all.Schedules {
		v.Rows = append(v.Rows, scheduleRow{s, lastOf(s)})
	}
	of := func(cursor string) string {
		kept := url.Values{}
		for name, value := range map[string]string{"search": page.Search, "limit": values.Get("limit"), "cursor": cursor} {
			if value != "" {
				kept.Set(name, value)
			}
		}
		return "/ui/schedules?" + kept.Encode()
	}
	if n := len(all.Schedules); all.More && n > 0 {
		v.Next = of(all.Schedules[n-1].Name)
	}
	if page.After != "" {
		v.First = of("")
	}
	return q.show("schedules", "Schedules", "schedules", "jobs", v)
}

// lastOf says what became of the last due time of a schedule, with links to its jobs; nil: none has come.
func lastOf(s answer.Schedule) []part {
	e := s.Last
	if e == nil {
		return nil
	}
	if len(e.Jobs) == 0 {
		return []part{{Text: words.DueTime(*e)}}
	}
	parts := jobLinks(e.Jobs[:1])
	if n := len(e.Jobs); n > 1 {
		parts = append(parts, part{Text: fmt.Sprintf(" and %d more", n-1)})
	}
	if end := s.LastEnd; end != nil && slices.Contains(e.Jobs, end.Job) {
		parts = append(jobLinks([]int64{end.Job}), part{Text: ": " + words.ScheduleEnd(*end)})
	}
	if e.Missed != "" {
		parts = append(parts, part{Text: ", " + words.DueTime(*e)})
	}
	return parts
}

// jobLinks are links to jobs.
func jobLinks(ids []int64) (parts []part) {
	for i, id := range ids {
		if i == jobLinksMax {
			return append(parts, part{Text: fmt.Sprintf(" and %d more", len(ids)-i)})
		}
		if i > 0 {
			parts = append(parts, part{Text: ", "})
		}
		number := strconv.FormatInt(id, 10)
		parts = append(parts, part{Text: "job " + number, Link: "/ui/jobs/" + number})
	}
	return parts
}

// scheduleView is the data of the page of a schedule.
type scheduleView struct {
	answer.Schedule
	ZoneData string
	Jobs     []scheduledJob
	Unended  []part
	LastEnd  []part
	History  []dueRow // the newest first
	request  *request
}

// scheduledJob is a job that a schedule submits.
type scheduledJob struct {
	Name string
	Ops  []scheduledOp
}

type scheduledOp struct {
	Summary string
	Op      any
}

// dueRow is a due time of the history.
type dueRow struct {
	answer.ScheduleEntry
	Jobs []part
}

// Refused says why the user may not change the schedule; empty: he may, as far as is known here. The queue decides.
func (v scheduleView) Refused() string {
	q := v.request
	if refused := q.refusal("POST /ui/schedules/{name}/{action}"); refused != "" {
		return refused
	}
	if q.user.Role < access.Operate && v.OwnerKey != q.user.From.Key() {
		return fmt.Sprintf("Schedule %s belongs to %s: to change it needs the role operate.", v.Name, v.Owner)
	}
	return ""
}

// Rests reports whether the schedule goes on only after an order, or at the end of its pause.
func (v scheduleView) Rests() bool { return v.State == "paused" || v.State == "stopped" }

// Every returns a duration of the schedule, for the template.
func (v scheduleView) Every(seconds float64) string {
	return words.FormatDuration(words.Seconds(seconds))
}

// readSchedule asks for the schedule with a name. An unknown one is an error with code 404.
func (x *Console) readSchedule(q *request, name string) (scheduleView, error) {
	v := scheduleView{request: q}
	all, err := ask[answer.Schedules](q, rapi.Short, "LockstepSchedules", name)
	if err != nil {
		return v, scheduleError(err)
	}
	if len(all.Schedules) != 1 {
		return v, errNotFound
	}
	v.Schedule, v.ZoneData = all.Schedules[0], all.ZoneData
	return v, nil
}

// scheduleError is an error about a schedule, for people.
func scheduleError(err error) error {
	f := rapi.AsScheduleFailure(err)
	if f.Code == http.StatusForbidden {
		return pageErrorOf(err)
	}
	return &pageError{f.Code, f.Error()}
}

func (x *Console) schedule(q *request) error {
	v, err := x.readSchedule(q, q.PathValue("name"))
	if err != nil {
		return err
	}
	v.Unended = jobLinks(v.Running)
	if end := v.Schedule.LastEnd; end != nil {
		v.LastEnd = append(jobLinks([]int64{end.Job}), part{Text: ": " + words.ScheduleEnd(*end) + ", "}, part{Time: end.End})
	}
	for _, j := range v.Schedule.Jobs {
		shown := scheduledJob{Name: j.Name}
		for _, op := range j.Ops {
			encoded, err := json.Marshal(op)
			if err != nil {
				return err
			}
			shown.Ops = append(shown.Ops, scheduledOp{opcode.Summary(encoded), op})
		}
		v.Jobs = append(v.Jobs, shown)
	}
	for _, e := range slices.Backward(v.Schedule.History) {
		v.History = append(v.History, dueRow{e, jobLinks(e.Jobs)})
	}
	return q.show("schedule", "Schedule "+v.Name, "schedules", "jobs", v)
}

// confirmRemoval says what the removal of a schedule means, and asks whether it is to be done. It changes nothing.
func (x *Console) confirmRemoval(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	v, err := x.readSchedule(q, q.PostForm.Get("name"))
	if err != nil {
		return err
	}
	v.Unended = jobLinks(v.Running)
	q.render(http.StatusOK, "remove", view{Title: "Remove a schedule", Section: "schedules", Data: v})
	return nil
}

// orderSchedule gives the order in the path for the schedule in the path, and shows the schedule, or after its removal the list.
func (x *Console) orderSchedule(q *request) error {
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	name, order := q.PathValue("name"), q.PathValue("action")
	q.about["action"], q.about["schedule"] = shorten(order, loggedMax), shorten(name, loggedMax)
	notice := map[string]string{orderRun: "ran", orderPause: "paused", orderResume: "resumed", orderRemove: "removed"}[order]
	if notice == "" {
		return badRequest("There is no action %s.", strconv.Quote(shorten(order, 20)))
	}
	var until any
	if order == orderPause {
		end, err := q.formTime()
		if err == nil && !end.IsZero() {
			until, err = rapi.PauseEnd(end.Format(time.RFC3339), time.Now())
		}
		if err != nil {
			return err
		}
	}
	var changed answer.ScheduleChanged
	if err := q.do(rapi.Long, &changed, "LockstepOrderSchedule", name, order, until); err != nil {
		return scheduleError(err)
	}
	if len(changed.Jobs) > 0 {
		q.about["new_job"] = idList(changed.Jobs)
	}
	back := "/ui/schedules/" + url.PathEscape(name)
	if order == orderRemove {
		back = "/ui/schedules"
	}
	return q.finish(true, withDone(back, notice))
}
