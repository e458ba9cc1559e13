package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/answer"
	"lockstep/core/wire"
)

// roleUsers are users of each role that sees pages, with their lines in the users file.
var roleUsers = map[access.Role]string{access.Read: "reader", access.Submit: "member", access.Operate: "driver", access.Admin: "admin"}

const roleUsersFile = "reader secret read\nmember secret submit\ndriver secret operate\nadmin secret write\nguest secret\n"

// jobsOf is a list with the job 7 of a submitter; none: the daemon's user.
func jobsOf(submitters ...access.Submitter) string {
	list := answer.JobList{Jobs: []answer.ListedJob{{ID: 7, Name: "nightly", Status: "queued", Received: answer.Time{Time: time.Now()}}}}
	for i := range submitters {
		list.Jobs[0].Submitter = &submitters[i]
	}
	data, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return string(data)
}

var ofMember = access.Submitter{UID: access.NoUID, Remote: "member"}

// Each form has a row in the table of what it needs, and no row is left over.
func TestEachFormHasItsNeed(t *testing.T) {
	var forms []string
	for _, route := range Routes() {
		if !strings.HasPrefix(route, "GET ") {
			forms = append(forms, route)
		}
	}
	slices.Sort(forms)
	require.Equal(t, forms, slices.Sorted(maps.Keys(access.ConsoleForms())))
}

// Each form does what it is for with the role that it needs. Without it the answer is 403 and names both roles, and nothing is changed. A
// user with the role submit changes own jobs.
func TestEachFormWithEachRole(t *testing.T) {
	a := newAudited(t)
	for pattern, need := range access.ConsoleForms() {
		forms := audits()[pattern]
		if q, is := questions[pattern]; is {
			forms = []audit{q}
		}
		require.NotEmpty(t, forms, pattern)
		for role, name := range roleUsers {
			for _, form := range forms {
				a.queue.instead["LockstepListJobs"] = jobsOf(ofMember)
				needs, path := need.Role, form.path
				if pattern == "POST /ui/opcodes/{name}" && role >= needs {
					needs = access.Admin // for OP_TEST_DELAY
				}
				w, _ := a.postAs(name, path, form.form)
				if role >= needs {
					require.NotContains(t, []int{401, 403}, w.Code, "%s of %s: %s", path, name, w.Body)
					continue
				}
				require.Equal(t, http.StatusForbidden, w.Code, "%s of %s", path, name)
				require.Contains(t, w.Body.String(), " needs the role "+needs.String()+", "+name+" (remote API) has "+role.String()+".", path)
				require.Empty(t, a.queue.effects, "%s of %s", path, name)
			}
		}
	}
}

// A user with the role submit changes no job of another user, and none of several if one is another user's. An operator does.
func TestJobsOfOthers(t *testing.T) {
	a := newAudited(t)
	for owner, submitters := range map[string][]access.Submitter{"alice": {{UID: 1000, Name: "alice"}}, daemonUser().String(): nil,
		"member (remote API)": {{UID: access.NoUID, Remote: "other"}}} {
		a.queue.instead["LockstepListJobs"] = jobsOf(submitters...)
		if len(submitters) > 0 {
			owner = submitters[0].String()
		}
		for action, to := range orders {
			if bulkVerbs[action] == "" {
				continue
			}
			refusal := fmt.Sprintf("Job 7 is %s&#39;s; to %s needs the role operate, member (remote API) has submit.", owner, to)
			w, _ := a.postAs("member", "/ui/jobs/apply", "id=8&id=7&priority=5&action="+action)
			require.Equal(t, http.StatusForbidden, w.Code, action)
			require.Contains(t, w.Body.String(), refusal)
			require.Empty(t, a.queue.effects, action)
			w, _ = a.postAs("member", "/ui/jobs/confirm", "id=8&id=7&priority=5&action="+action)
			require.Equal(t, http.StatusOK, w.Code, action)
			require.Contains(t, w.Body.String(), refusal)
			require.Contains(t, w.Body.String(), `disabled title="`+refusal)
			w, _ = a.postAs("driver", "/ui/jobs/apply", "id=8&id=7&priority=5&action="+action)
			require.Equal(t, http.StatusSeeOther, w.Code, action)
			require.NotEmpty(t, a.queue.effects, action)
		}
	}
}

// An order for several jobs is one call, which the queue refuses as a whole.
func TestAnOrderForSeveralJobsIsOneCall(t *testing.T) {
	a := newAudited(t)
	a.queue.instead["LockstepListJobs"] = jobsOf(ofMember)
	for action := range orderedTogether {
		var got [][]any
		a.queue.refuses = func(method string, args ...any) (json.RawMessage, error) {
			got = append(got, append([]any{method}, args...))
			return nil, nil
		}
		w, _ := a.postAs("driver", "/ui/jobs/apply", "id=8&id=7&id=9&priority=5&action="+action)
		require.Equal(t, http.StatusSeeOther, w.Code, action)
		want := []any{"LockstepOrderJobs", action, []int64{8, 7, 9}}
		if action == actionPriority {
			want = append(want, 5)
		}
		require.Equal(t, [][]any{want}, got)
	}
}

// The queue has the last word: its refusal is shown, and the rest of several jobs is left as it is.
func TestARefusalOfTheQueueIsShown(t *testing.T) {
	a := newAudited(t)
	a.queue.instead["LockstepListJobs"] = jobsOf(ofMember)
	a.queue.refuses = func(string, ...any) (json.RawMessage, error) {
		return nil, &wire.Error{Class: "OpPrereqError", Args: []json.RawMessage{json.RawMessage(`"to give a job a priority below 0 needs the role operate, member has submit"`), json.RawMessage(`"not_permitted"`)}}
	}
	for path, form := range map[string]string{"/ui/jobs/7/priority": "priority=-5", "/ui/jobs/apply": "action=priority&priority=-5&id=7&id=8",
		"/ui/opcodes/OP_RUN_COMMAND": "p-argv=true"} {
		a.queue.instead["LockstepOpcodes"] = `[{"name": "OP_RUN_COMMAND", "runs": true, "params": [{"name": "argv", "type": "a list of at least one string"}]}]`
		user := "member"
		if strings.Contains(path, "opcodes") {
			user = "admin"
		}
		w, _ := a.postAs(user, path, form)
		require.Equal(t, http.StatusForbidden, w.Code, path)
		require.Contains(t, w.Body.String(), "o give a job a priority below 0 needs the role operate, member has submit.", path)
		require.Empty(t, a.queue.effects)
	}
}

var button = regexp.MustCompile(`<button[^>]*>[^<]*`)

// What a user may not do is shown disabled, with the reason. His own jobs are his to change.
func TestButtonsOfEachRole(t *testing.T) {
	a := newAudited(t)
	const nodes = `{"self": "n1", "master": "n1", "nodes": [{"name": "n1", "voter": true, "master": true}, {"name": "n2", "voter": true}]}`
	queue := fixedAnswers{
		"LockstepStatus": answer.QueueStatus{Jobs: map[string]int64{"queued": 1}, Drained: true}, "LockstepNodes": json.RawMessage(nodes),
		"LockstepPageJobs": json.RawMessage(jobsOf()), "LockstepListJobs": json.RawMessage(jobsOf(ofMember)), "LockstepPending": []any{},
		"LockstepWhy": answer.Why{ID: 7}, "LockstepGetSettings": map[string]any{"max_running_jobs": 20},
		"LockstepListFilters": []any{map[string]any{"uuid": "u", "priority": 0, "predicates": []any{}, "action": "PAUSE", "reason_trail": []any{}, "until": 1}},
		"LockstepTestFilter":  answer.FilterPreview{},
		"LockstepOpcodes":     []answer.Opcode{{Name: "OP_TEST_DELAY", Runs: true}},
		"QueryJobs": func(args ...any) any {
			if fields := args[1].([]string); len(fields) == 2 { // status and oplog
				return []any{[]any{"queued", []any{[]any{}}}}
			}
			return []any{[]any{"queued", []any{map[string]any{"OP_ID": "OP_TEST_DELAY"}}, []string{"queued"}, []any{nil}, []any{nil}, []any{nil}, []any{nil}, []int{0}, nil, nil, nil}}
		},
	}
	of := func(user, path string) map[string]string { // the button by its text
		a.setQueue(queue)
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.AddCookie(a.sessionOf(user))
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		require.Equal(t, http.StatusOK, w.Code, "%s: %s", path, w.Body)
		all := map[string]string{}
		for _, b := range button.FindAllString(w.Body.String(), -1) {
			_, text, _ := strings.Cut(b, ">")
			all[text] = b
		}
		return all
	}
	for _, c := range []struct {
		path, button string
		needs        access.Role
	}{
		{"/ui/", "Accept jobs again", access.Operate}, {"/ui/settings", "Accept jobs again", access.Operate}, {"/ui/settings", "Put in force", access.Admin},
		{"/ui/jobs", "Selected …", access.Submit}, {"/ui/jobs", "All that match …", access.Submit},
		{"/ui/jobs/7", "Cancel", access.Submit}, {"/ui/jobs/7", "End now", access.Submit}, {"/ui/jobs/7", "Hold", access.Submit}, {"/ui/jobs/7", "Set", access.Submit},
		{"/ui/filters", "Delete", access.Operate}, {"/ui/filters", "Make the rule", access.Operate}, {"/ui/filters", "Preview", access.Read},
		{"/ui/nodes", "Make it the master …", access.Admin}, {"/ui/opcodes/OP_TEST_DELAY", "Submit", access.Admin}, {"/ui/help", "Log out", access.Read},
	} {
		for role, name := range roleUsers {
			b := of(name, c.path)[c.button]
			require.NotEmpty(t, b, "%s %s", c.path, c.button)
			require.Equal(t, role < c.needs, strings.Contains(b, "disabled"), "%s %s of %s", c.path, b, name)
			if role < c.needs {
				require.Contains(t, b, " needs the role "+c.needs.String()+", "+name+" (remote API) has "+role.String()+`."`, c.path)
			}
		}
	}
	queue["LockstepListJobs"] = json.RawMessage(jobsOf(access.Submitter{UID: 1000, Name: "alice"}))
	all := of("member", "/ui/jobs/7")
	for text, to := range map[string]string{"Cancel": "cancel it", "End now": "kill it", "Hold": "hold it", "Set": "change its priority"} {
		require.Contains(t, all[text], `disabled title="Job 7 is alice&#39;s; to `+to+` needs the role operate, member (remote API) has submit."`)
		require.NotContains(t, of("driver", "/ui/jobs/7")[text], "disabled")
	}
}

// A user sees his role on each page. One without a role sees no page.
func TestTheRoleIsShown(t *testing.T) {
	a := newAudited(t)
	for role, name := range roleUsers {
		r := httptest.NewRequest(http.MethodGet, "/ui/help", nil)
		r.AddCookie(a.sessionOf(name))
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		require.Contains(t, w.Body.String(), ">"+name+", "+role.String()+"<")
	}
	w, _ := a.postAs("guest", "/ui/jobs/7/cancel", "")
	require.Equal(t, http.StatusForbidden, w.Code)
	require.Contains(t, w.Body.String(), "needs the role submit, guest (remote API) has none.")
}

// What a user does is done in his name, and his submissions with the account of as=.
func TestInWhoseNameTheConsoleAsks(t *testing.T) {
	a := newAudited(t)
	a.postAs("driver", "/ui/drain", "drained=1")
	require.Equal(t, []access.Identity{{UID: access.NoUID, Login: access.NoUID, Remote: "driver", Role: access.Operate}}, a.queue.from)
	a.postAs("operator", "/ui/opcodes/OP_TEST_DELAY", "p-duration=1")
	require.Equal(t, []access.Identity{{UID: access.NoUID, Login: access.NoUID, Remote: "operator", Role: access.Admin}}, a.queue.from)
	w, _ := a.post("/ui/login", "name=reader&password=secret")
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, []access.Identity{access.DaemonItself(os.Geteuid())}, a.queue.from, "a login is the daemon's own business")
}
