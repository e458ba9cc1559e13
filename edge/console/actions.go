package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/edge/rapi"
)

// Actions on jobs.
const (
	actionCancel   = "cancel"
	actionPriority = "priority"
	actionArchive  = "archive"
	actionRerun    = "rerun"
	actionHold     = "hold"
	actionRelease  = "release"
	actionKill     = "kill"
	actionTime     = "reschedule"
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
	Refused  string // why the user may not do it; empty: he may
}

var bulkVerbs = map[string]string{
	actionCancel:   "Cancel",
	actionPriority: "Change the priority of",
	actionArchive:  "Archive",
	actionRerun:    "Run again",
	actionHold:     "Hold",
	actionRelease:  "Release",
	actionKill:     "End",
}

// confirmJobs shows how many jobs an action concerns, and asks whether it is to be done. It changes nothing.
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
	v.Refused = q.refusal("POST /ui/jobs/apply")
	if v.Refused == "" {
		if err := x.refuseOrders(q, v.Action, v.IDs); errors.As(err, new(*access.Refusal)) {
			v.Refused = capital(err.Error()) + "."
		} else if err != nil {
			return err
		}
	}
	if q.PostForm.Get("page") != "" { // of the one job
		v.Back = fmt.Sprintf("/ui/jobs/%d", v.IDs[0])
	}
	q.render(http.StatusOK, "confirm", view{Title: v.Verb + " jobs", Section: "jobs", Data: v})
	return nil
}

// matching are the ids of the jobs of the queue that a filter selects, at most bulkMax. more: there are others.
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
		page, err := ask[answer.JobPage](q, rapi.Page, "LockstepPageJobs", wanted)
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

// applyJobs does an action on several jobs, and tells how many permitted it. Jobs that refuse it do not keep it from the others. A job of
// another user does: then none is changed, unless the user is an operator.
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
	if len(ids) == 0 {
		return badRequest("No job is selected.")
	}
	if action == actionPriority {
		if _, err := q.priority(); err != nil {
			return err
		}
	}
	if err := x.refuseOrders(q, action, ids); err != nil {
		return err // none of them is changed
	}
	undone, err := x.actOnAll(q, action, ids)
	if err != nil && undone == len(ids) {
		return err
	}
	if err != nil {
		text := strings.TrimSuffix(pageErrorOf(err).text, ".")
		return &pageError{
			pageErrorOf(err).code,
			fmt.Sprintf("%s. The action was done for at least %d of %d jobs.", text, len(ids)-undone, len(ids)),
		}
	}
	back := q.PostForm.Get("back")
	if !strings.HasPrefix(back, "/ui/jobs") {
		back = "/ui/jobs"
	}
	return q.finish(undone == 0, withDone(back, fmt.Sprintf(noticeBulk, len(ids)-undone, len(ids))))
}

// actOnAll does an action on several jobs, and returns the number of those on which it was not done. What the queue takes for several jobs
// is one call: an error is one of all of them, and after a refusal because of the user's role none is changed. Otherwise an error of the
// queue ends it, and so does such a refusal; the action may have been done on the job whose answer is an error, which counts as undone.
func (x *Console) actOnAll(q *request, action string, ids []int64) (int, error) {
	var undone, fresh []int64
	q.about["action"], q.about["job"] = action, idList(ids)
	defer func() {
		if len(undone) > 0 {
			q.about["undone"] = idList(undone)
		}
		if len(fresh) > 0 {
			q.about["new_job"] = idList(fresh)
		}
	}()
	if orderedTogether[action] {
		var err error
		undone, err = q.orderAll(action, ids)
		return len(undone), err
	}
	for i, id := range ids {
		done, next, err := x.act(q, action, id)
		switch {
		case err != nil && (pageErrorOf(err).code >= http.StatusInternalServerError || pageErrorOf(err).code == http.StatusForbidden):
			undone = append(undone, ids[i:]...)
			return len(undone), err
		case err != nil || done == noticeNotDone:
			undone = append(undone, id)
		case next != id:
			fresh = append(fresh, next)
		}
	}
	return len(undone), nil
}

// orderedTogether are the actions that LockstepOrderJobs has.
var orderedTogether = map[string]bool{actionCancel: true, actionKill: true, actionHold: true, actionRelease: true, actionPriority: true}

// orderAll gives the same order for several jobs, and returns those for which it was not done.
func (q *request) orderAll(action string, ids []int64) (undone []int64, err error) {
	args := []any{action, ids}
	if action == actionPriority {
		priority, err := q.priority()
		if err != nil {
			return ids, err
		}
		args = append(args, priority)
	}
	var answers [][]json.RawMessage
	if err := q.do(rapi.Long, &answers, "LockstepOrderJobs", args...); err != nil {
		return ids, err
	}
	for i, id := range ids {
		if i >= len(answers) || len(answers[i]) == 0 || string(answers[i][0]) != "true" {
			undone = append(undone, id)
		}
	}
	return undone, nil
}

func idList(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ",")
}

// withDone adds the name of a notice to a path. If that is not possible the result is the path of the console.
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

// act does one action on a job. done is the name of its notice, which says so if the job refused it; next is the job to show: the new one
// of a rerun, else the same.
func (x *Console) act(q *request, action string, id int64) (done string, next int64, err error) {
	outcome := func(name, method string, args ...any) (string, int64, error) {
		var result []json.RawMessage
		if err := q.do(rapi.Long, &result, method, args...); err != nil {
			return "", id, err
		}
		if len(result) == 0 || string(result[0]) != "true" {
			name = noticeNotDone
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
		priority, err := q.priority()
		if err != nil {
			return "", id, err
		}
		return outcome("priority", "ChangeJobPriority", id, priority)
	case actionTime:
		done, err := q.reschedule(id)
		return done, id, err
	case actionArchive:
		var archived bool
		if err := q.do(rapi.Short, &archived, "ArchiveJob", id); err != nil {
			return "", id, err
		}
		if !archived {
			return noticeNotDone, id, nil
		}
		return "archived", id, nil
	case actionRerun:
		next, err := x.rerun(q, id)
		return "submitted", next, err
	}
	return "", id, badRequest("There is no action %s.", strconv.Quote(shorten(action, 20)))
}

// reschedule changes the time of a job to that in the form; a form without one means now. It returns the name of the notice.
func (q *request) reschedule(id int64) (done string, err error) {
	at := "now"
	t, err := q.formTime()
	switch {
	case err != nil:
		return "", err
	case !t.IsZero() && !t.After(time.Now()):
		return "", badRequest("This time has passed: %s. “Start now” needs no time.", t.Format(time.RFC3339))
	case !t.IsZero():
		at = t.Format(time.RFC3339Nano)
	}
	var outcomes [][]json.RawMessage
	if err := q.do(rapi.Long, &outcomes, "LockstepOrderJobs", actionTime, []int64{id}, at); err != nil {
		return "", submissionError(err)
	}
	if len(outcomes) == 0 || len(outcomes[0]) == 0 || string(outcomes[0][0]) != "true" {
		return noticeNotDone, nil
	}
	return "rescheduled", nil
}

// jobAction does the action in the path on the job in the path, and shows the job.
func (x *Console) jobAction(q *request) error {
	id, err := q.jobID()
	if err != nil {
		return err
	}
	if err := q.ParseForm(); err != nil {
		return badRequest("The form cannot be read.")
	}
	action := q.PathValue("action")
	q.about["action"], q.about["job"] = shorten(action, loggedMax), id
	done, next, err := x.act(q, action, id)
	if err != nil {
		return err
	}
	if next != id {
		q.about["new_job"] = next
	}
	return q.finish(done != noticeNotDone, fmt.Sprintf("/ui/jobs/%d?done=%s", next, done))
}

// priority is the priority that a form asks for. The error is for the user.
func (q *request) priority() (int, error) {
	priority, err := strconv.Atoi(strings.TrimSpace(q.PostForm.Get("priority")))
	if err != nil || priority < -20 || priority > 19 {
		return 0, badRequest("The priority is a number from -20, the most urgent, to 19.")
	}
	return priority, nil
}
