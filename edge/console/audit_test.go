package console

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/session"
	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/login"
	"lockstep/edge/rapi"
)

// queueOf answers calls as a queue with the queued jobs 7, 8 and 9 does. It records calls with an effect.
type queueOf struct {
	mu      sync.Mutex
	effects []string
	from    []access.Identity                                         // whose they are
	instead map[string]string                                         // answers instead of those of answersOf
	refuses func(method string, args ...any) (json.RawMessage, error) // nil, nil: it does not
}

// answersOf are answers to calls without effect.
var answersOf = map[string]string{
	"LockstepGetSettings": `{"max_running_jobs": 20, "keep_last": null}`,
	"LockstepStatus":      `{"jobs": {"queued": 3}}`,
	"LockstepOpcodes":     `[{"name": "OP_TEST_DELAY", "runs": true, "params": [{"name": "duration", "type": "a number"}]}]`,
	"LockstepListJobs":    `{"jobs": [{"id": 7, "name": "nightly"}]}`,
	"LockstepTestFilter":  `{"count": 1, "jobs": [7], "unfinished": 3}`,
	"LockstepListFilters": `[]`,
	"LockstepSchedules":   `{"schedules": [{"name": "nightly", "every": 3600, "state": "active", "owner": "member (remote API)", "owner_key": "remote=member"}]}`,
	"QueryJobs":           `[["success", [{"OP_ID": "OP_TEST_DELAY", "duration": 1}], ["success"], [true], [null], [null], [null], [0], null, null, null]]`,
}

// effectsOf are answers to calls with an effect.
var effectsOf = map[string]string{
	"ArchiveJob": "true", "CancelJob": `[true, ""]`, "ChangeJobPriority": `[true, ""]`, "DeleteFilter": "null", "LockstepEndSession": "null", "LockstepHoldJob": `[true, ""]`,
	"LockstepOrderJobs":     `[[true, ""], [true, ""], [true, ""]]`,
	"LockstepOrderSchedule": `{"changed": true, "jobs": [12, 13]}`,
	"LockstepNodePromote":   "null", "LockstepOpenSession": "null", "LockstepRedeemLink": `{"valid": true, "user": "uid=7(ann), pid=9"}`,
	"LockstepReplaceFilter": `{"uuid": "76e6367a", "count": 0, "jobs": []}`, "LockstepSetSettings": "null", "LockstepSubmitJobs": "[12]", "SetDrainFlag": "true",
}

func (l *queueOf) Call(ctx context.Context, _ rapi.Class, method string, args ...any) (json.RawMessage, error) {
	if text, is := l.instead[method]; is {
		return json.RawMessage(text), nil
	}
	if text, is := answersOf[method]; is {
		return json.RawMessage(text), nil
	}
	text, is := effectsOf[method]
	if !is {
		return nil, fmt.Errorf("an unexpected call of %s", method)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses != nil {
		if data, err := l.refuses(method, args...); data != nil || err != nil {
			return data, err
		}
	}
	l.effects, l.from = append(l.effects, method), append(l.from, rapi.CallerOf(ctx))
	return json.RawMessage(text), nil
}

// audited is a console whose log a test reads.
type audited struct {
	*Console
	*testing.T
	queue *queueOf
	log   *logrustest.Hook
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("operator secret write\n"+roleUsersFile), 0o600))
	log, hook := logrustest.NewNullLogger()
	log.SetLevel(logrus.DebugLevel)
	x, err := New(Config{Log: log, Queue: rapi.NewForwardingPool(rapi.Gateway{}, admission.NewTable()), Logins: login.New(users, log), Port: 5080, Commands: login.Commands{OfAdmins: true}, Table: admission.NewTable()})
	require.NoError(t, err)
	queue := &queueOf{instead: map[string]string{}}
	x.setQueue(queue)
	return &audited{x, t, queue, hook}
}

// session opens a session of the operator.
func (a *audited) session() *http.Cookie { return a.sessionOf("operator") }

// sessionOf opens a session of a user of the users file.
func (a *audited) sessionOf(name string) *http.Cookie {
	id := bytes.Repeat([]byte{7}, idOctets)
	u, known := a.config.Logins.Find(name)
	require.True(a, known, name)
	a.sessions.keep(session.HashOf(id), answer.Session{Valid: true, User: "user=" + name, Name: name, Proof: u.Proof(id)})
	return &http.Cookie{Name: a.cookieName(), Value: base64.RawURLEncoding.EncodeToString(id)}
}

// post sends a form, and returns the answer and the lines that it has left in the log.
func (a *audited) post(path, form string) (*httptest.ResponseRecorder, []*logrus.Entry) {
	a.Helper()
	return a.postAs("operator", path, form)
}

// postAs is post of another user.
func (a *audited) postAs(name, path, form string) (*httptest.ResponseRecorder, []*logrus.Entry) {
	a.Helper()
	cookie := a.sessionOf(name)
	a.log.Reset()
	a.queue.effects, a.queue.from = nil, nil
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.RemoteAddr = "127.0.0.7:4711"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.AddCookie(cookie)
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w, a.log.AllEntries()
}

// audit is a request that changes something, and what the log says of it besides user and address.
type audit struct {
	path, form string
	message    string
	fields     logrus.Fields
}

const changeMessage = "console: change requested"

// audits has all patterns that change something.
func audits() map[string][]audit {
	token := base64.RawURLEncoding.EncodeToString(make([]byte, idOctets))
	all := map[string][]audit{
		"POST /ui/login":  {{"/ui/login", "name=operator&password=secret", "console: logged in", logrus.Fields{}}},
		"POST /ui/open":   {{"/ui/open", "token=" + token, "console: logged in", logrus.Fields{"user": "uid=7(ann), pid=9"}}},
		"POST /ui/logout": {{"/ui/logout", "", "console: logged out", logrus.Fields{}}},
		"POST /ui/filters/save": {{"/ui/filters/save", "action=PAUSE&priority=0&kind=opcode&field=OP_ID&operator=%3D&value=OP_TEST_DELAY", changeMessage,
			logrus.Fields{"request": "POST /ui/filters/save", "rule": "76e6367a"}}},
		"POST /ui/filters/delete": {{"/ui/filters/delete", "uuid=76e6367a", changeMessage, logrus.Fields{"request": "POST /ui/filters/delete", "rule": "76e6367a"}}},
		"POST /ui/nodes/promote":  {{"/ui/nodes/promote", "name=n2", changeMessage, logrus.Fields{"request": "POST /ui/nodes/promote", "node": "n2"}}},
		"POST /ui/settings": {{"/ui/settings", "max_running_jobs=5&keep_last=3", changeMessage,
			logrus.Fields{"request": "POST /ui/settings", "settings": "keep_last,max_running_jobs"}}},
		"POST /ui/drain": {{"/ui/drain", "drained=1", changeMessage, logrus.Fields{"request": "POST /ui/drain", "drained": true}}},
		"POST /ui/opcodes/{name}": {{"/ui/opcodes/OP_TEST_DELAY", "p-duration=1", changeMessage,
			logrus.Fields{"request": "POST /ui/opcodes/OP_TEST_DELAY", "opcode": "OP_TEST_DELAY", "job": int64(12)}}},
	}
	for _, order := range []string{orderRun, orderPause, orderResume, orderRemove} {
		path := "/ui/schedules/nightly/" + order
		all["POST /ui/schedules/{name}/{action}"] = append(all["POST /ui/schedules/{name}/{action}"], audit{path, "", changeMessage,
			logrus.Fields{"request": "POST " + path, "action": order, "schedule": "nightly", "new_job": "12,13"}})
	}
	one := func(action string) {
		fields := logrus.Fields{"request": "POST /ui/jobs/7/" + action, "action": action, "job": int64(7)}
		if action == actionRerun {
			fields["new_job"] = int64(12)
		}
		all["POST /ui/jobs/{id}/{action}"] = append(all["POST /ui/jobs/{id}/{action}"], audit{"/ui/jobs/7/" + action, "priority=-5", changeMessage, fields})
	}
	one(actionKill)
	one(actionTime)
	for action := range bulkVerbs {
		one(action)
		fields := logrus.Fields{"request": "POST /ui/jobs/apply", "action": action, "job": "7,8,9"}
		if action == actionRerun {
			fields["new_job"] = "12,12,12"
		}
		all["POST /ui/jobs/apply"] = append(all["POST /ui/jobs/apply"], audit{"/ui/jobs/apply", "id=7&id=8&id=9&priority=-5&action=" + action, changeMessage, fields})
	}
	return all
}

// questions are the patterns of forms that change nothing.
var questions = map[string]audit{
	"POST /ui/jobs/confirm":      {path: "/ui/jobs/confirm", form: "action=cancel&id=7"},
	"POST /ui/schedules/confirm": {path: "/ui/schedules/confirm", form: "name=nightly"},
	"POST /ui/nodes/confirm":     {path: "/ui/nodes/confirm", form: "name=n2"},
	"POST /ui/filters/preview":   {path: "/ui/filters/preview", form: "action=PAUSE&priority=0&kind=opcode&field=OP_ID&operator=%3D&value=OP_TEST_DELAY"},
}

// Each action that changes something leaves one line in the log: who did what, to which jobs, and from where. A pattern that is neither
// an action nor a question here is an error.
func TestEveryChangeIsLogged(t *testing.T) {
	a := newAudited(t)
	actions := audits()
	for _, r := range a.routes() {
		if method, _, has := strings.Cut(r.pattern, " "); has && method == http.MethodGet {
			continue
		}
		if q, is := questions[r.pattern]; is {
			w, lines := a.post(q.path, q.form)
			require.Equal(t, http.StatusOK, w.Code, "%s: %s", r.pattern, w.Body)
			require.Empty(t, lines, r.pattern)
			require.Empty(t, a.queue.effects, "%s has an effect", r.pattern)
			continue
		}
		require.NotEmpty(t, actions[r.pattern], "%s has no test of its line in the log", r.pattern)
		for _, want := range actions[r.pattern] {
			w, lines := a.post(want.path, want.form)
			require.Equal(t, http.StatusSeeOther, w.Code, "%s: %s", want.path, w.Body)
			require.NotEmpty(t, a.queue.effects, want.path)
			require.Len(t, lines, 1, want.path)
			require.Equal(t, want.message, lines[0].Message, want.path)
			fields := logrus.Fields{"user": "user=operator", "address": "127.0.0.7"}
			if want.message == changeMessage {
				fields["done"] = true
			}
			for key, value := range want.fields {
				fields[key] = value
			}
			require.Equal(t, fields, lines[0].Data, "%s %s", want.path, want.form)
		}
	}
}

// A page cannot change anything: no GET has an effect.
func TestPagesHaveNoEffect(t *testing.T) {
	a := newAudited(t)
	for _, r := range a.routes() {
		path, is := strings.CutPrefix(r.pattern, "GET ")
		if !is || path == "/ui/events" {
			continue
		}
		path = strings.NewReplacer("{$}", "", "{id}", "7", "{name}", "OP_TEST_DELAY").Replace(path)
		request := httptest.NewRequest(http.MethodGet, path+"?token=x&action=cancel&id=7&uuid=x&drained=1", nil)
		request.AddCookie(a.session())
		a.ServeHTTP(httptest.NewRecorder(), request)
	}
	require.Empty(t, a.queue.effects)
}

// The line of a change that was not made says so, and for several jobs which of them it left as they are.
func TestWhatWasNotDoneIsLoggedAsSuch(t *testing.T) {
	a := newAudited(t)
	only := func(path, form string, code int, fields logrus.Fields) *httptest.ResponseRecorder {
		t.Helper()
		w, lines := a.post(path, form)
		require.Equal(t, code, w.Code, w.Body)
		require.NotEmpty(t, lines)
		last := lines[len(lines)-1]
		require.Equal(t, changeMessage, last.Message)
		for key, value := range fields {
			require.Equal(t, value, last.Data[key], key)
		}
		require.NotContains(t, fmt.Sprint(last.Data), "hunter2", "what the user has sent")
		return w
	}
	only("/ui/opcodes/OP_TEST_DELAY", "p-duration=hunter2", http.StatusUnprocessableEntity, logrus.Fields{"done": false, "opcode": "OP_TEST_DELAY"})
	only("/ui/filters/save", "action=PAUSE&json=hunter2", http.StatusUnprocessableEntity, logrus.Fields{"done": false})
	only("/ui/jobs/7/priority", "priority=hunter2", http.StatusBadRequest, logrus.Fields{"done": false, "job": int64(7)})
	only("/ui/jobs/7/reschedule", "time=hunter2", http.StatusBadRequest, logrus.Fields{"done": false, "job": int64(7)})
	only("/ui/schedules/nightly/pause", "time=hunter2", http.StatusBadRequest, logrus.Fields{"done": false, "schedule": "nightly"})
	only("/ui/schedules/nightly/dance", "", http.StatusBadRequest, logrus.Fields{"done": false, "action": "dance"})
	only("/ui/jobs/7/dance", "", http.StatusBadRequest, logrus.Fields{"done": false, "action": "dance"})

	a.queue.refuses = func(method string, args ...any) (json.RawMessage, error) {
		switch {
		case method == "LockstepOrderJobs":
			require.Equal(t, []any{"hold", []int64{9, 8, 7}}, args)
			return json.RawMessage(`[[false, "Job 9 not found in queue"], [false, "Job 8 has ended"], [true, ""]]`), nil
		case args[0] == int64(8): // has ended
			return json.RawMessage(`[false, "Job 8 has ended"]`), nil
		}
		return nil, nil
	}
	only("/ui/jobs/8/cancel", "", http.StatusSeeOther, logrus.Fields{"done": false})
	w := only("/ui/jobs/apply", "action=hold&id=9&id=8&id=7&back=%2Fui%2Fjobs%3Fname%3Dx", http.StatusSeeOther, logrus.Fields{"done": false, "job": "9,8,7", "undone": "9,8"})
	to, err := url.Parse(w.Header().Get("Location"))
	require.NoError(t, err)
	require.Equal(t, url.Values{"name": {"x"}, "done": {"bulk.1.3"}}, to.Query())

	a.queue.refuses = func(_ string, args ...any) (json.RawMessage, error) {
		if args[0] == int64(8) {
			return nil, &wire.Error{Class: "NotMaster", Args: []json.RawMessage{json.RawMessage(`"n2 is the master"`)}}
		}
		return nil, nil
	}
	w = only("/ui/jobs/apply", "action=archive&id=7&id=8&id=9", http.StatusServiceUnavailable, logrus.Fields{"done": false, "undone": "8,9"})
	require.Contains(t, w.Body.String(), "The action was done for at least 1 of 3 jobs.")
	require.Equal(t, []string{"ArchiveJob"}, a.queue.effects, "nothing after the error")
}

func TestNoticesAfterAnAction(t *testing.T) {
	for done, want := range map[string]string{"bulk.3.3": "Done for 3 of 3 jobs.", "bulk.1.3": "Done for 1 of 3 jobs. The others have ended, or do not permit it now.",
		"held": "The job is held.", "bulk.x.3": "", "bulk": "", "<b>": "", "": ""} {
		r := httptest.NewRequest(http.MethodGet, "/ui/jobs?done="+url.QueryEscape(done), nil)
		require.Equal(t, want, takeNotice(&request{Request: r}), done)
	}
}
