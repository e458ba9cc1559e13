package rapi_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/edge/rapi"
)

// Each operation has a row in the table of what it needs, and no row is left over.
func TestEachOperationHasItsNeed(t *testing.T) {
	require.Equal(t, rapi.Routes(), slices.Sorted(maps.Keys(access.RapiRoutes())))
}

// roleUsers are users of each role, with the password secret.
var roleUsers = map[access.Role]string{access.None: "ro:secret", access.Read: "reader:secret", access.Submit: "member:secret",
	access.Operate: "operator:secret", access.Admin: "peer:secret"}

// requestOf is a valid request for an operation.
func requestOf(route string) (method, path, body string) {
	method, path, _ = strings.Cut(route, " ")
	for _, r := range clusterRequests() {
		if r.method == method && r.pattern == path {
			return method, r.path, r.body
		}
	}
	path = strings.NewReplacer("{id}", "7", "{uuid}", uuid1, "{kind}", "job", "{node}", "n2", "{name}", "a").Replace(path)
	body = map[string]string{"POST /3/jobs": `{"ops":[{"OP_ID":"A"}]}`, "GET /2/jobs/{id}/wait": `{"fields":["status"]}`,
		"PUT /3/jobs/{id}/priority": `{"priority":1}`, "PUT /3/drain": `{"drained":true}`, "PUT /3/settings": `{"max_running_jobs":3}`,
		"PUT /2/query/{kind}": `{"fields":["id"]}`, "PUT /2/modify": "{}", "POST /2/filters": "{}", "PUT /2/filters/{uuid}": "{}",
		"POST /3/filters/test": "{}", "PUT /3/schedules/{name}": `{"every":60,"jobs":[[{"OP_ID":"A"}]]}`}[route]
	if route == "GET /2/query/{kind}" {
		path += "?fields=id"
	}
	return method, path, body
}

// A user with the role that an operation needs may use it. One without it is refused with both roles named, and the queue is not asked; a
// client without a login is asked for one.
func TestEachOperationWithEachRole(t *testing.T) {
	t.Parallel()
	overSocket := func(c *rapi.Config) { c.OverSocket = true }
	for name, b := range map[string]*testServer{"": newTestServer(t, authenticate), "over a socket ": newTestServer(t, authenticate, overSocket)} {
		for route, need := range access.RapiRoutes() {
			needs := need.Role
			switch {
			case name != "" && need.Own && !need.Defines:
				needs = access.Operate // the queue does not know whose request it is
			case name != "" && needs == access.Submit:
				needs = access.Admin
			}
			method, path, body := requestOf(route)
			if !need.Public {
				a := b.do(method, path, "", body)
				require.Equal(t, http.StatusUnauthorized, a.code, name+route)
			}
			for role, user := range roleUsers {
				b.luxi.jobs = map[int64]string{7: "success"}
				b.luxi.asked = nil
				if role >= needs {
					if strings.HasSuffix(route, "/events") {
						continue // it does not end
					}
					a := b.do(method, path, user, body)
					require.NotContains(t, []int{401, 403}, a.code, "%s%s %s: %s", name, route, user, a.body)
					continue
				}
				text := b.failure(http.StatusForbidden, b.do(method, path, user, body))
				userName, _, _ := strings.Cut(user, ":")
				require.Equal(t, "to use "+route+" needs the role "+needs.String()+", "+userName+" (remote API) has "+role.String(), text, name+route)
				require.Empty(t, b.luxi.asked, "%s%s %s", name, route, user)
			}
		}
	}
}

// A refusal of the queue, which knows whose a job is and which opcodes a role may submit, is 403 with its text.
func TestARefusalOfTheQueue(t *testing.T) {
	t.Parallel()
	b := newTestServer(t)
	const text = "job 7 is root's; to kill it needs the role operate, member (remote API) has submit"
	refuse := func([]any) (string, error) { return "", failed("OpPrereqError", marshal(text), `"not_permitted"`) }
	for method, request := range map[string]string{"CancelJob": "DELETE /3/jobs/{id}", "LockstepHoldJob": "PUT /3/jobs/{id}/hold",
		"ArchiveJob": "PUT /3/jobs/{id}/archive", "LockstepPutSchedule": "PUT /3/schedules/{name}", "LockstepOrderSchedule": "DELETE /3/schedules/{name}/pause",
		"SubmitManyJobs": "POST /3/jobs", "ChangeJobPriority": "PUT /3/jobs/{id}/priority"} {
		b.luxi.answers[method] = refuse
		verb, path, body := requestOf(request)
		require.Equal(t, strings.ReplaceAll(text, "'", "&#x27;"), b.failure(http.StatusForbidden, b.do(verb, path, "member:secret", body)), method)
	}
}

// Requests are made in the name of the user, submissions with the account of as=. Those of guests are the daemon's own.
func TestInWhoseNameTheQueueIsAsked(t *testing.T) {
	t.Parallel()
	var missing, silent bool
	b := newTestServer(t, func(c *rapi.Config) {
		c.Commands.AsAccounts = true
		c.Logins.UseAccounts(func(_ context.Context, name string) (int, bool, error) {
			if silent {
				return 0, false, errors.New("no answer")
			}
			return 1000, !missing && name == "alice", nil
		})
	})
	from := func(method, path, user, body string, code int) access.Identity {
		b.luxi.from = nil
		a := b.do(method, path, user, body)
		require.Equal(t, code, a.code, a.body)
		require.Len(t, b.luxi.from, 1)
		return b.luxi.from[0]
	}
	b.luxi.jobs[7] = "queued"
	deploy := access.Identity{UID: access.NoUID, Login: access.NoUID, Remote: "deploy", Role: access.Submit}
	account := deploy
	account.UID, account.Name = 1000, "alice"
	admin := access.Identity{UID: access.NoUID, Login: access.NoUID, Remote: "peer", Role: access.Admin}
	const command = `{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]}`
	require.Equal(t, access.DaemonItself(os.Geteuid()), from("GET", "/2/jobs/7", "", "", 200))
	require.Equal(t, deploy, from("GET", "/2/jobs/7", "deploy:secret", "", 200))
	require.Equal(t, deploy, from("DELETE", "/2/jobs/7", "deploy:secret", "", 200))
	require.Equal(t, account, from("POST", "/3/jobs", "deploy:secret", command, 201))
	require.Equal(t, account, from("POST", "/3/jobs", "deploy:secret", `{"ops":[{"OP_ID":"A"}],"name":"x"}`, 201))
	const definition = `{"every":60,"jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]]}`
	require.Equal(t, account, from("PUT", "/3/schedules/nightly", "deploy:secret", definition, 200), "the jobs of a schedule run as the account, too")
	require.Equal(t, deploy, from("POST", "/3/schedules/nightly/run", "deploy:secret", "", 201))
	require.Equal(t, admin, from("PUT", "/2/redistribute-config", "peer:secret", "", 200))
	require.Contains(t, b.failure(403, b.do("POST", "/3/jobs", "peer:secret", command)), "--rapi-allow-commands")
	require.Contains(t, b.failure(403, b.do("PUT", "/3/schedules/nightly", "peer:secret", definition)), "--rapi-allow-commands")

	missing, b.luxi.asked = true, nil
	require.Contains(t, b.failure(403, b.do("POST", "/3/jobs", "deploy:secret", command)), "the account alice, which this machine does not have")
	silent = true
	require.Contains(t, b.failure(503, b.do("POST", "/3/jobs", "deploy:secret", command)), "cannot be looked up now")
	require.Empty(t, b.luxi.asked)
	require.Equal(t, deploy, from("DELETE", "/2/jobs/7", "deploy:secret", "", 200), "no account is needed")
}

// The document says of each operation which role it needs, and without which login it is.
func TestTheDocumentSaysWhatIsNeeded(t *testing.T) {
	for path, item := range openAPI(t, newTestServer(t)).Paths.Map() {
		for method, operation := range item.Operations() {
			need := access.RapiRoute(method + " " + path)
			require.Contains(t, operation.Description, "It needs: "+need.String()+".", "%s %s", method, path)
			require.Equal(t, need.Role == access.None, operation.Security != nil, "%s %s: without a login", method, path)
		}
	}
}
