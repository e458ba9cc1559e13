package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/wire"
	"lockstep/edge/rapi"
)

// schedulesOf is a page of schedules for a queue.
func schedulesOf(more bool, all ...answer.Schedule) answer.Schedules {
	return answer.Schedules{Schedules: all, More: more}
}

func stamp(seconds int64) answer.Time { return answer.Time{Time: time.Unix(seconds, 0)} }

// refusing answers each call with an error.
type refusing struct{ error }

func (r refusing) Call(context.Context, rapi.Class, string, ...any) (json.RawMessage, error) {
	return nil, r.error
}

var nightly = answer.Schedule{Name: "nightly", Cron: "0 3 * * *", Zone: "Europe/Berlin", Overlap: "skip", CatchUp: "last", WithinSecs: 86400,
	State: "active", Owner: "member (remote API)", OwnerKey: "remote=member", Next: stamp(4102444800)}

// The list is a page with the rule, the next time and what became of the last due time of each schedule.
func TestThePageOfSchedules(t *testing.T) {
	a := newAudited(t)
	ran, missed, stopped := nightly, nightly, nightly
	ran.Last, ran.LastEnd = &answer.ScheduleEntry{Due: stamp(1), Jobs: []int64{12, 13}}, &answer.ScheduleEnded{Job: 13, End: stamp(2), Result: "exit 3"}
	missed.Name, missed.Cron, missed.Zone, missed.EverySecs = "poll", "", "", 5400
	missed.Last = &answer.ScheduleEntry{Due: stamp(1), Missed: "Job queue is drained, refusing job"}
	stopped.Name, stopped.State, stopped.Why = "report", "stopped", "its last due time is ahead"
	var asked []any
	queue := fixedAnswers{"LockstepSchedules": func(args ...any) any { asked = args; return schedulesOf(true, ran, missed, stopped) }}
	page := a.view(queue, "/ui/schedules?search=i%26")
	data, err := json.Marshal(asked)
	require.NoError(t, err)
	require.JSONEq(t, `[null, {"search": "i&", "after": "", "limit": 100}]`, string(data))
	for _, want := range []string{"0 3 * * * Europe/Berlin", "every 1h30m", `<a href="/ui/schedules/nightly" title="nightly">nightly</a>`,
		`<a href="/ui/jobs/13">job 13</a>: exit 3`, "missed: Job queue is drained, refusing job", "its last due time is ahead", "member (remote API)",
		`<span class="s s-error">stopped</span>`, `<a href="/ui/schedules?cursor=report&amp;search=i%26" rel="next">`} {
		require.Contains(t, page, want)
	}
	require.NotContains(t, page, `rel="first"`)
	queue["LockstepSchedules"] = schedulesOf(false)
	page = a.view(queue, "/ui/schedules?search=x&cursor=report")
	require.Contains(t, page, "No schedule has this in its name.")
	require.Contains(t, page, `<a href="/ui/schedules?search=x" rel="first">`)
	require.Contains(t, a.view(queue, "/ui/schedules"), "There is no schedule yet.")
}

// The page of a schedule has its jobs, its next times, and its history with links, the newest first.
func TestThePageOfASchedule(t *testing.T) {
	a := newAudited(t)
	s := nightly
	s.Upcoming = []answer.ScheduleEntry{{Due: stamp(4102444800)}, {Due: stamp(4102531200)}}
	s.Jobs = []answer.ScheduleJob{{Name: "fetch", Ops: []any{map[string]any{"OP_ID": "OP_TEST_DELAY", "duration": 5}}}}
	s.Running = []int64{14}
	many := make([]int64, 12)
	for i := range many {
		many[i] = int64(20 + i)
	}
	s.History = []answer.ScheduleEntry{{Due: stamp(1), Jobs: many}, {Due: stamp(2), Missed: "Job queue is drained, refusing job"}, {Due: stamp(3), Jobs: []int64{14}, By: "ann"}}
	queue := fixedAnswers{"LockstepSchedules": func(args ...any) any {
		require.Equal(t, []any{"nightly"}, args)
		return answer.Schedules{Schedules: []answer.Schedule{s}, ZoneData: "2026a"}
	}}
	page := a.view(queue, "/ui/schedules/nightly")
	for _, want := range []string{"TEST_DELAY(5.0)", "<b>fetch</b>", "2026a", `datetime="2100-01-0`, `<a href="/ui/jobs/14">job 14</a>`, "run by ann",
		"missed: Job queue is drained, refusing job", `<a href="/ui/jobs/29">job 29</a> and 2 more`, `action="/ui/schedules/nightly/pause"`} {
		require.Contains(t, page, want)
	}
	require.Regexp(t, `(?s)run by ann.*drained.*on time`, page)
	s.State, s.Until = "paused", stamp(4102444800)
	page = a.view(queue, "/ui/schedules/nightly")
	require.Contains(t, page, `action="/ui/schedules/nightly/resume"`)
	require.NotContains(t, page, `action="/ui/schedules/nightly/pause"`)

	unknown := &wire.Error{Class: "OpPrereqError", Args: []json.RawMessage{json.RawMessage(`"There is no schedule x: see lockstep schedule list"`), json.RawMessage(`"unknown_entity"`)}}
	a.setQueue(refusing{unknown})
	request := httptest.NewRequest(http.MethodGet, "/ui/schedules/x", nil)
	request.AddCookie(a.session())
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	require.Equal(t, http.StatusNotFound, w.Code)
	require.Contains(t, w.Body.String(), "There is no schedule x")
}

// Buttons of a schedule of another user are disabled, with the reason; its owner and operators have them.
func TestTheButtonsOfASchedule(t *testing.T) {
	a := newAudited(t)
	others := nightly
	others.Owner, others.OwnerKey = "bob", "uid=1000"
	for name, want := range map[string]string{
		"reader": "To change schedules needs the role submit, reader (remote API) has read.",
		"member": "Schedule nightly belongs to bob: to change it needs the role operate.", "driver": "", "admin": "",
	} {
		for i, s := range []answer.Schedule{others, nightly} {
			a.setQueue(fixedAnswers{"LockstepSchedules": schedulesOf(false, s)})
			request := httptest.NewRequest(http.MethodGet, "/ui/schedules/nightly", nil)
			request.AddCookie(a.sessionOf(name))
			w := httptest.NewRecorder()
			a.ServeHTTP(w, request)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
			if want == "" || name == "member" && i == 1 {
				require.NotContains(t, w.Body.String(), " disabled", name)
				continue
			}
			require.Contains(t, w.Body.String(), `disabled title="`+want, name)
			require.NotContains(t, w.Body.String(), `<button>`, name)
		}
	}
}

// Orders go to the queue in the name of the user. The end of a pause is what the script sends, or the time in the server's zone.
func TestOrdersOfThePageOfASchedule(t *testing.T) {
	a := newAudited(t)
	var got []any
	a.queue.refuses = func(method string, args ...any) (json.RawMessage, error) {
		got = append([]any{method}, args...)
		return nil, nil
	}
	order := func(path, form, to string) []any {
		t.Helper()
		got = nil
		w, _ := a.postAs("member", path, form)
		require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
		require.Equal(t, to, w.Header().Get("Location"))
		require.Equal(t, "remote=member", a.queue.from[0].Key())
		return got
	}
	require.Equal(t, []any{"LockstepOrderSchedule", "nightly", "run", nil}, order("/ui/schedules/nightly/run", "", "/ui/schedules/nightly?done=ran"))
	require.Equal(t, []any{"LockstepOrderSchedule", "nightly", "resume", nil}, order("/ui/schedules/nightly/resume", "", "/ui/schedules/nightly?done=resumed"))
	require.Equal(t, []any{"LockstepOrderSchedule", "nightly", "remove", nil}, order("/ui/schedules/nightly/remove", "", "/ui/schedules?done=removed"))
	require.Equal(t, []any{"LockstepOrderSchedule", "nightly", "pause", nil}, order("/ui/schedules/nightly/pause", "", "/ui/schedules/nightly?done=paused"))
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, form := range []url.Values{
		{"time": {until.Add(7 * time.Hour).Format(timeLayouts[1])}, "at": {until.UTC().Format("2006-01-02T15:04:05.000Z")}},
		{"time": {until.In(time.Local).Format(timeLayouts[1])}, "at": {""}},
	} {
		require.Equal(t, []any{"LockstepOrderSchedule", "nightly", "pause", float64(until.Unix())},
			order("/ui/schedules/nightly/pause", form.Encode(), "/ui/schedules/nightly?done=paused"))
	}
	for form, want := range map[string]string{"time=": "Give a time.", "time=soon": "&#34;soon&#34; is no time", "time=2020-01-01T00:00": "The end of the pause has passed"} {
		w, _ := a.postAs("member", "/ui/schedules/nightly/pause", form)
		require.Equal(t, http.StatusBadRequest, w.Code, form)
		require.Contains(t, w.Body.String(), want)
		require.Empty(t, a.queue.effects)
	}
	a.queue.refuses = func(string, ...any) (json.RawMessage, error) {
		return nil, &wire.Error{Class: "OpPrereqError", Args: []json.RawMessage{json.RawMessage(`"The schedule does not run now: job 7 has not ended"`), json.RawMessage(`"wrong_state"`)}}
	}
	w, _ := a.postAs("member", "/ui/schedules/nightly/run", "")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), "The schedule does not run now: job 7 has not ended")
}

// The page of a job that is not due has its time, and a form for another one.
func TestAnotherTimeForAJob(t *testing.T) {
	a := newAudited(t)
	due := answer.Time{Time: time.Now().Add(time.Hour).Truncate(time.Second)}
	job := answer.ListedJob{ID: 7, Status: "queued", Summary: []string{"RUN_COMMAND(true)"}, Due: &due, At: &due, Submitter: &access.Submitter{UID: access.NoUID, Remote: "member"},
		Schedule: &answer.DueTime{Name: "nightly", Due: due}}
	queue := hostileQueue()
	show := func() string {
		queue["LockstepListJobs"] = answer.JobList{Jobs: []answer.ListedJob{job}}
		query := queue["QueryJobs"].(func(...any) any)
		queue["QueryJobs"] = func(args ...any) any {
			rows := query(args...).([]any)
			rows[0].([]any)[0] = "queued"
			return rows
		}
		return a.view(queue, "/ui/jobs/7")
	}
	page := show()
	require.Contains(t, page, `action="/ui/jobs/7/reschedule"`)
	require.Contains(t, page, fmt.Sprintf(`value="%s" data-when="%s"`, due.In(time.Local).Format(timeLayouts[1]), due.UTC().Format(time.RFC3339)))
	require.Contains(t, page, `<a href="/ui/schedules/nightly">nightly</a>`)
	passed := answer.Time{Time: time.Now().Add(-time.Second)}
	job.Due = &passed
	require.NotContains(t, show(), "reschedule")
	job.Due = nil
	require.NotContains(t, show(), "reschedule")

	a = newAudited(t)
	var got []any
	a.queue.refuses = func(method string, args ...any) (json.RawMessage, error) {
		got = append([]any{method}, args...)
		return nil, nil
	}
	w, _ := a.postAs("member", "/ui/jobs/7/reschedule", "")
	require.Equal(t, "/ui/jobs/7?done=rescheduled", w.Header().Get("Location"))
	require.Equal(t, []any{"LockstepOrderJobs", "reschedule", []int64{7}, "now"}, got)
	a.postAs("member", "/ui/jobs/7/reschedule", url.Values{"time": {"x"}, "at": {due.UTC().Format(time.RFC3339)}}.Encode())
	require.Equal(t, []any{"LockstepOrderJobs", "reschedule", []int64{7}, due.UTC().Format(time.RFC3339)}, got)
	for form, want := range map[string]string{"time=": "Give a time.", "time=2020-01-01T00%3A00": "This time has passed"} {
		w, _ := a.postAs("member", "/ui/jobs/7/reschedule", form)
		require.Equal(t, http.StatusBadRequest, w.Code, form)
		require.Contains(t, w.Body.String(), want)
		require.Empty(t, a.queue.effects)
	}
	a.queue.refuses = func(string, ...any) (json.RawMessage, error) {
		return json.RawMessage(`[[false, "Job 7 has started"]]`), nil
	}
	w, _ = a.postAs("member", "/ui/jobs/7/reschedule", "")
	require.Equal(t, "/ui/jobs/7?done=notdone", w.Header().Get("Location"))
}
