package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	coreaudit "lockstep/core/audit"
	"lockstep/core/retry"
	"lockstep/edge/rapi"
)

// fixedAnswers answers each call by its method.
type fixedAnswers map[string]any

func (f fixedAnswers) Call(_ context.Context, _ rapi.Class, method string, args ...any) (json.RawMessage, error) {
	value, is := f[method]
	if !is {
		return nil, fmt.Errorf("an unexpected call of %s", method)
	}
	if of, is := value.(func(...any) any); is {
		value = of(args...)
	}
	return json.Marshal(value)
}

// view is a page for a reader who has logged in.
func (a *audited) view(queue rapi.Luxi, path string) string {
	a.Helper()
	a.setQueue(queue)
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.AddCookie(a.session())
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	require.Equal(a, http.StatusOK, w.Code, "%s: %s", path, w.Body)
	return w.Body.String()
}

// hostile has a mark, and characters that reorder, hide or control text.
const hostile = "mark\u202e\u2066\u200b\u200f\ufeff\u0085\u2028\x1b[31m\a\x7fend"

// hostileQueue answers with hostile texts wherever a text is a user's.
func hostileQueue() fixedAnswers {
	now := answer.Time{Time: time.Now()}
	listed := answer.ListedJob{ID: 7, Name: hostile, Status: "error", Result: hostile, User: "user=" + hostile, Summary: []string{hostile}, Received: now, Started: now, Ended: now}
	queued := listed
	queued.ID, queued.Status, queued.Started, queued.Ended = 8, "queued", answer.Time{}, answer.Time{}
	running := answer.RunningJob{ID: 9, Status: hostile, Summary: []string{hostile}, Started: now}
	filter := answer.Reason{Kind: answer.WhyFilter, UUID: hostile, Action: "PAUSE", RuleReason: hostile, By: hostile}
	trail := []any{[]any{hostile, hostile, 1}}
	op := map[string]any{"OP_ID": hostile, "argv": []string{hostile}, "reason": trail, hostile: hostile}
	active := listed
	active.ID, active.Status, active.Result, active.Ended = 9, "running", "", answer.Time{}
	active.Progress = answer.NewProgress(40, hostile, now.Add(-time.Minute).UnixMicro(), now.UnixMicro())
	return fixedAnswers{
		"LockstepStatus": answer.QueueStatus{Jobs: map[string]int64{"queued": 1, "running": 1}, Running: []answer.RunningJob{running}, CannotStart: hostile,
			ForeignConfig: hostile, Master: hostile, DataDir: hostile, CannotWrite: []answer.CannotWrite{{Job: 7, Text: hostile}}, Nodes: hostileNodes()},
		"LockstepPageJobs": answer.JobPage{Jobs: []answer.ListedJob{listed, queued, active}},
		"LockstepListJobs": answer.JobList{Jobs: []answer.ListedJob{listed}},
		"LockstepWhy":      answer.Why{ID: 7, Reasons: []answer.Reason{filter, {Kind: answer.WhyHold, By: hostile}, {Kind: hostile}, {Kind: answer.WhyCannotWrite, Text: hostile, Since: &now}}},
		"LockstepPending":  []answer.PendingReason{{ID: 8, Text: hostile}},
		"LockstepSchedules": answer.Schedules{ZoneData: hostile, Schedules: []answer.Schedule{{Name: hostile, Cron: hostile, Zone: hostile, Overlap: hostile, CatchUp: hostile,
			State: hostile, Why: hostile, Owner: hostile, Last: &answer.ScheduleEntry{Due: now, Missed: hostile, Jobs: []int64{7}}, LastEnd: &answer.ScheduleEnded{Job: 7, End: now, Result: hostile},
			Jobs: []answer.ScheduleJob{{Name: hostile, Ops: []any{op}}}, History: []answer.ScheduleEntry{{Due: now, Skipped: hostile}, {Due: now, By: hostile}}}}},
		"LockstepNextJobs": answer.NextJobs{Jobs: []answer.NextJob{{ID: 8, Name: hostile, Summary: []string{hostile}, Order: answer.Reason{Kind: answer.WhyOrder}, Limits: []answer.Reason{filter}}}},
		"LockstepAudit":    coreaudit.Page{Entries: []coreaudit.Entry{{Number: 1, Time: time.Now(), User: hostile, By: hostile, What: hostile, Refused: hostile}}},
		"LockstepOrder":    answer.Order{Order: "expected"},
		"LockstepLocks": answer.Locks{Locks: []answer.Lock{{Name: hostile, Mode: hostile, Owners: []string{hostile}, Pending: []answer.LockWaiter{{Mode: hostile, Owner: hostile}}}},
			Waits: []answer.LockWait{{Owner: answer.LockOwner{Who: answer.Principal{Name: hostile, Named: true}}, Request: []answer.LockItem{{Lock: hostile, Mode: hostile}},
				Blockers: []answer.LockOwner{{Who: answer.Principal{Name: hostile + "2", Named: true}}}, Locks: [][]string{{hostile}}}}},
		"LockstepNodes":       *hostileNodes(),
		"LockstepGetSettings": map[string]any{"order": hostile},
		"LockstepOpcodes":     []answer.Opcode{{Name: "OP_TEST_DELAY", Doc: hostile, Runs: true, Params: []answer.OpcodeParam{{Name: hostile, Type: hostile, Doc: hostile}}}},
		"LockstepListFilters": []any{map[string]any{"uuid": hostile, "priority": 0, "predicates": []any{[]any{"reason", []any{"=~", "reason", hostile}}}, "action": "PAUSE", "reason_trail": trail, "until": 1}},
		"QueryJobs": func(args ...any) any {
			if fields := args[1].([]string); len(fields) == 2 { // status and oplog
				return []any{[]any{"error", []any{[]any{[]any{1, []int64{1, 1}, "message", hostile}}}}}
			}
			stamp := []any{[]int64{1, 1}}
			return []any{[]any{"error", []any{op}, []string{hostile}, []any{hostile}, stamp, stamp, stamp, []int{0}, []int64{1, 1}, []int64{1, 1}, []int64{1, 1}}}
		},
	}
}

func hostileNodes() *answer.Nodes {
	return &answer.Nodes{Self: hostile, Master: hostile, Nodes: []answer.Node{{Name: hostile, Address: hostile, Voter: true, Error: hostile}}}
}

// No page has a character that reorders, hides or controls text, whatever users write.
func TestHostileTextsOnEveryPage(t *testing.T) {
	a := newAudited(t)
	seen := 0
	for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/7", "/ui/jobs/7/graph", "/ui/timeline", "/ui/locks", "/ui/filters", "/ui/order", "/ui/schedules", "/ui/schedules/x", "/ui/audit", "/ui/nodes",
		"/ui/settings", "/ui/opcodes", "/ui/opcodes/OP_TEST_DELAY", "/ui/help"} {
		page := a.view(hostileQueue(), path)
		seen += strings.Count(page, "mark")
		if path != "/ui/help" {
			require.Contains(t, page, "mark", "%s shows no text of users: the test is without effect there", path)
		}
		for _, forbidden := range "\u202e\u2066\u200b\u200f\ufeff\u0085\u2028\x1b\a\x7f" {
			require.NotContains(t, page, string(forbidden), "%s has %U", path, forbidden)
		}
	}
	require.Greater(t, seen, 30)
}

// The progress of a command has a bar, the expected rest of the time, and a text.
func TestProgressOnThePages(t *testing.T) {
	now := answer.Time{Time: time.Now()}
	job := answer.ListedJob{ID: 7, Status: "running", Summary: []string{"RUN_COMMAND(rsync)"}, Received: now, Started: now,
		Progress: answer.NewProgress(42.5, "copying <disk> 2", now.Add(-time.Hour).UnixMicro(), now.UnixMicro())}
	queue := hostileQueue()
	queue["LockstepPageJobs"], queue["LockstepListJobs"] = answer.JobPage{Jobs: []answer.ListedJob{job}}, answer.JobList{Jobs: []answer.ListedJob{job}}
	queue["LockstepStatus"] = answer.QueueStatus{Running: []answer.RunningJob{{ID: 7, Status: "running", Started: now, Progress: job.Progress}}}
	a := newAudited(t)
	for _, path := range []string{"/ui/", "/ui/jobs", "/ui/jobs/7"} {
		page := a.view(queue, path)
		require.Contains(t, page, `<progress max="100" value="42.5" aria-label="Progress"></progress> <span class="num">42.5%</span>`, path)
		require.Contains(t, page, fmt.Sprintf(`data-until="%d">1 h 21 min left</span>`, job.Progress.End.UnixMilli()), path)
		require.Contains(t, page, "<span>copying &lt;disk&gt; 2</span> <span", path)
	}
	unknown := job
	unknown.Progress = answer.NewProgress(-1, "waiting for the tape", now.UnixMicro(), now.UnixMicro())
	queue["LockstepPageJobs"] = answer.JobPage{Jobs: []answer.ListedJob{unknown}}
	page := a.view(queue, "/ui/jobs")
	require.Contains(t, page, "waiting for the tape")
	require.NotContains(t, page, "<progress")
}

// Ganeti's big lock, which each job shares, is shown only if it matters.
func TestTheBigLockIsShownIfItMatters(t *testing.T) {
	const owner = `{"job": 7}`
	shared := answer.Lock{Name: "cluster/BGL", Mode: "shared", Owners: []string{owner}}
	deploy := answer.Lock{Name: "lock/deploy", Mode: "exclusive", Owners: []string{owner}}
	alone := answer.Lock{Name: "cluster/BGL", Mode: "exclusive", Owners: []string{owner}}
	queue, a := hostileQueue(), newAudited(t)
	queue["LockstepLocks"] = answer.Locks{Locks: []answer.Lock{shared, deploy}}
	page := a.view(queue, "/ui/locks")
	require.Contains(t, page, "lock/deploy")
	require.NotContains(t, page, "cluster/BGL")
	queue["LockstepLocks"] = answer.Locks{Locks: []answer.Lock{alone}}
	require.Contains(t, a.view(queue, "/ui/locks"), "cluster/BGL")
}

// JSON in a form keeps its meaning.
func TestHostileJSONKeepsItsMeaning(t *testing.T) {
	text := indented([]string{hostile})
	require.Equal(t, visible(text), text)
	var back []string
	require.NoError(t, json.Unmarshal([]byte(text), &back))
	require.Equal(t, []string{hostile}, back)
}

// The timeline has each running job, however many newer jobs have ended, and says how many are left out.
func TestTheTimelineHasTheRunningJobs(t *testing.T) {
	now := time.Now()
	at := func(ago time.Duration) answer.Time { return answer.Time{Time: now.Add(-ago)} }
	queue := fixedAnswers{
		"LockstepStatus":   answer.QueueStatus{Jobs: map[string]int64{"running": 2, "waiting": 1, "queued": 100}, Running: []answer.RunningJob{{ID: 1}, {ID: 2}}},
		"LockstepListJobs": answer.JobList{Jobs: []answer.ListedJob{{ID: 1, Status: "running", Received: at(time.Hour * 9), Started: at(time.Hour * 8)}, {ID: 2, Status: "running", Received: at(time.Minute), Started: at(time.Minute)}}},
		"LockstepPageJobs": func(args ...any) any {
			if args[0].(answer.JobPageRequest).OldestFirst {
				return answer.JobPage{Jobs: []answer.ListedJob{{ID: 3, Status: "queued", Received: at(time.Hour)}}}
			}
			page := answer.JobPage{Cursor: 5}
			for id := range int64(timelineMax) {
				page.Jobs = append(page.Jobs, answer.ListedJob{ID: 1000 - id, Status: "canceled", Received: at(time.Second), Ended: at(time.Second)})
			}
			return page
		},
	}
	page := newAudited(t).view(queue, "/ui/timeline")
	for _, id := range []int{1, 2, 3} {
		require.Contains(t, page, fmt.Sprintf(`id="row-%d"`, id))
	}
	require.Contains(t, page, "100 more that have not begun are left out.")
	require.Contains(t, page, "the newest 500")
}

// A click on End now asks first, and a job whose opcode runs cannot be canceled.
func TestEndNowAsks(t *testing.T) {
	a := newAudited(t)
	queue := hostileQueue()
	stamp := []int64{1, 1}
	queue["QueryJobs"] = func(...any) any {
		return []any{[]any{"running", []any{map[string]any{"OP_ID": "OP_TEST_DELAY"}}, []string{"running"}, []any{nil}, []any{stamp}, []any{stamp}, []any{nil}, []int{0}, stamp, stamp, nil}}
	}
	queue["LockstepListJobs"] = answer.JobList{Jobs: []answer.ListedJob{{ID: 7, Status: "running"}}}
	a.setQueue(queue)
	request := httptest.NewRequest(http.MethodGet, "/ui/jobs/7", nil)
	request.Header.Set(liveHeader, "1")
	request.AddCookie(a.session())
	w := httptest.NewRecorder()
	a.ServeHTTP(w, request)
	page := w.Body.String()
	require.Contains(t, page, `<button disabled title="An opcode runs, which cannot be canceled. End now ends it.">Cancel</button>`)
	require.NotContains(t, page, `action="/ui/jobs/7/kill"`)

	a.setQueue(a.queue)
	answered, lines := a.post("/ui/jobs/confirm", "action=kill&id=7&page=1")
	require.Equal(t, http.StatusOK, answered.Code)
	require.Empty(t, lines, "nothing is done")
	require.Empty(t, a.queue.effects)
	require.Contains(t, answered.Body.String(), `<a class="button" href="/ui/jobs/7">Back</a>`)
	require.Contains(t, answered.Body.String(), "This cannot be undone.")
	answered, _ = a.post("/ui/jobs/apply", "action=kill&id=7&back=/ui/jobs/7")
	require.Equal(t, http.StatusSeeOther, answered.Code)
	require.Equal(t, "/ui/jobs/7?done=bulk.1.1", answered.Header().Get("Location"))
	require.Len(t, a.queue.effects, 1)
}

// The page of the order has what the order in force uses.
func TestThePageOfTheOrder(t *testing.T) {
	likely := answer.Time{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, order := range []string{"expected", "weights", "plain"} {
		queue := hostileQueue()
		queue["LockstepOrder"] = answer.Order{Order: order, Jobs: []answer.Estimate{{ID: 8, Start: &answer.TimeRange{From: likely, Likely: likely, To: likely}, Unknown: "no-history"}}}
		page := newAudited(t).view(queue, "/ui/order")
		require.Equal(t, order == "weights", strings.Contains(page, "Age in ticks"), order)
		require.Equal(t, order != "weights", strings.Contains(page, "2026-01-02T03:04:05Z"), order)
		require.Equal(t, order != "weights", strings.Contains(page, "no such job has ended"), order)
	}
}

// After the jobs that come next the page has those between two tries, in the order of their times.
func TestThePageOfTheOrderHasTheJobsBetweenTwoTries(t *testing.T) {
	due := func(s int) *answer.Time { return &answer.Time{Time: time.Date(2026, 1, 2, 3, 4, s, 0, time.UTC)} }
	queue := hostileQueue()
	require.NotContains(t, newAudited(t).view(queue, "/ui/order"), "Between two tries")
	queue["LockstepOrder"] = answer.Order{Order: "expected", Jobs: []answer.Estimate{{ID: 8}, {ID: 11, Unknown: "due"}, {ID: 12, Unknown: "due"}, {ID: 13, Unknown: "due"}}}
	queue["LockstepListJobs"] = answer.JobList{Jobs: []answer.ListedJob{{ID: 12, Due: due(9), Try: &answer.Try{Number: 2, Most: 6, Last: hostile}, Summary: []string{hostile}},
		{ID: 13}, {ID: 11, Due: due(5), Try: &answer.Try{Number: 3, Most: 4, Last: "exit 75"}}}}
	page := newAudited(t).view(queue, "/ui/order")
	first, second := strings.Index(page, `id="not-due-11"`), strings.Index(page, `id="not-due-12"`)
	require.True(t, 0 < first && first < second)
	require.Contains(t, page, "try 3 of 4, the one before: exit 75")
	require.Contains(t, page, "2026-01-02T03:04:05Z")
	require.NotContains(t, page, `id="not-due-13"`, "it has been started")
	require.NotContains(t, page, hostile)
}

// The table of locks has those that wait, as the tree has them.
func TestTheTableOfLocksHasThoseThatWait(t *testing.T) {
	job := func(id int64) answer.LockOwner { return answer.LockOwner{Who: answer.Principal{Job: id}} }
	queue := fixedAnswers{"LockstepLocks": answer.Locks{Locks: []answer.Lock{{Name: "lock/aa", Mode: "exclusive", Owners: []string{"7"}}},
		Waits: []answer.LockWait{{Owner: job(8), Request: []answer.LockItem{{Lock: "lock/aa", Mode: "exclusive"}}, Blockers: []answer.LockOwner{job(7)}, Locks: [][]string{{"lock/aa"}}}}}}
	_, table, _ := strings.Cut(newAudited(t).view(queue, "/ui/locks"), `id="lock-lock/aa"`)
	require.Contains(t, table, `<a href="/ui/jobs/8">job 8</a> (exclusive)`)
}

// The form submits a policy of tries from its fields, and shows them again if one of them is wrong.
func TestTheFormHasFieldsForFurtherTries(t *testing.T) {
	a := newAudited(t)
	a.queue.instead["LockstepOpcodes"] = marshalled([]answer.Opcode{{Name: "OP_SITE_SYNC", Defined: true, Runs: true,
		Params: []answer.OpcodeParam{{Name: "retry", Type: retry.Wanted, Default: json.RawMessage(`2`)}}}})
	w, _ := a.post("/ui/opcodes/OP_SITE_SYNC", "p-retry=3&p-retry-delay=soon&p-retry-max-delay=1h&p-retry-on=1,75")
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	for _, part := range []string{`<option value="">default: up to 2 further tries</option>`, `<option value="3" selected>up to 3 further tries</option>`,
		`name="p-retry-delay" value="soon"`, `name="p-retry-max-delay" value="1h"`, `name="p-retry-on" value="1,75"`, "is no time to wait"} {
		require.Contains(t, w.Body.String(), part)
	}
	var submitted []any
	a.queue.refuses = func(_ string, args ...any) (json.RawMessage, error) {
		submitted = args
		return nil, nil
	}
	w, _ = a.post("/ui/opcodes/OP_SITE_SYNC", "p-retry=3&p-retry-delay=1m&p-retry-max-delay=1h&p-retry-on=1,75")
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Contains(t, marshalled(submitted), `"retry":{"times":3,"delay":60,"max_delay":3600,"on":[1,75]}`)
}

func marshalled(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
