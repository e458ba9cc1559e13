package rapi_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/events"
	"lockstep/edge/rapi"
)

// marker stands for all data of jobs: the daemon answers each call with it.
const marker = "belongs-to-a-job"

type raw = json.RawMessage

// forGuests are the resources that guests may read, without and with a required login.
var forGuests = []string{"GET /healthz", "GET /metrics", "GET /readyz"}

var allMethods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"}

// paths are the paths of a pattern, with each kind of element.
func paths(pattern string) []string {
	all := []string{strings.NewReplacer("{id}", "7", "{uuid}", uuid1, "{kind}", "job", "{name}", "a", "{disk}", "0", "{node}", "n2").Replace(pattern)}
	if strings.Contains(pattern, "{kind}") {
		for _, kind := range []string{"lock", "filter", "node", "instance", "group", "network", "export", "os"} {
			all = append(all, strings.ReplaceAll(pattern, "{kind}", kind))
		}
	}
	for _, path := range slices.Clone(all) {
		all = append(all, path+"?bulk=1&fields=id,ops,summary,opresult")
	}
	return all
}

// Without a login a client learns nothing of a job, by any method of any resource. A new
// resource that is open to guests has to be added to forGuests. It covers nine methods and
// several kinds of missing credentials; no answer contains the marker of the daemon behind the
// API. The test fails if /3/locks, /2/jobs/{id}, its DELETE or /3/events is accessPublic, and
// if a login admits guests although one is required.
func TestGuestsLearnNothingOfJobs(t *testing.T) {
	b := newTestServer(t, authenticate)
	b.client.Timeout = 5 * time.Second
	for _, method := range []string{"QueryJobs", "WaitForJobChange", "CancelJob", "SubmitJob", "SubmitManyJobs", "QueryFilters", "ReplaceFilter", "DeleteFilter",
		"Query", "QueryFields", "QueryClusterInfo", "ChangeJobPriority", "LockstepWhy", "LockstepLocks", "LockstepGetSettings"} {
		b.luxi.answers[method] = func([]any) (string, error) { return `["` + marker + `"]`, nil }
	}
	b.luxi.answers["LockstepStatus"] = func([]any) (string, error) {
		return `{"jobs":{"queued":3},"running":[{"summary":["` + marker + `"]}],"cluster":"` + marker + `","last_id":7}`, nil
	}
	b.feed.Publish(events.Jobs, []byte(`{"summary":["`+marker+`"]}`))
	var patterns []string
	open := map[string]bool{}
	for _, resource := range rapi.Resources() {
		patterns = append(patterns, strings.Fields(resource)[1])
	}
	for _, pattern := range slices.Compact(slices.Sorted(slices.Values(patterns))) {
		for _, path := range append(paths(pattern), pattern+"/", strings.ToUpper(pattern)) {
			for _, method := range allMethods {
				for _, headers := range [][]string{nil, {"Authorization: Basic"}, {"Authorization: Basic Og=="}, {"Authorization: Bearer x"}} {
					a := b.do(method, path, "", "", headers...)
					require.NotContains(t, a.body, marker, "%s %s", method, path)
					for name, values := range a.header {
						require.NotContains(t, strings.Join(values, " "), marker, name)
					}
					if a.code < 400 {
						open[strings.Replace(method, "HEAD", "GET", 1)+" "+path] = true
						continue
					}
					require.Contains(t, []int{401, 404, 405}, a.code, "%s %s: %s", method, path, a.body)
				}
			}
		}
	}
	for _, who := range forGuests {
		require.True(t, open[who], who)
		delete(open, who)
		delete(open, who+"?bulk=1&fields=id,ops,summary,opresult")
	}
	require.Empty(t, open, "is open to everybody")
}

// If the operator opens the remote API to guests, they see which jobs exist. The arguments
// and the output of commands are visible only after a login.
func TestWhatGuestsSeeOfCommands(t *testing.T) {
	b := newTestServer(t)
	b.luxi.answers["QueryJobs"] = func(args []any) (string, error) {
		all := map[string]any{"id": 7, "status": "success", "summary": []string{"RUN_COMMAND(env)"}, "opstatus": []string{"success"},
			"received_ts": nil, "start_ts": nil, "end_ts": nil,
			"ops": []any{map[string]any{"OP_ID": "OP_RUN_COMMAND", "argv": []string{"env"}, "env": map[string]string{"TOKEN": marker}, "stdin": marker},
				raw(`{"OP_ID": "OP_RUN_COMMAND", "\u0065nv": {"TOKEN": "` + marker + `"}}`)},
			"oplog": []any{[]any{[]any{1, []int{1, 2}, "message", marker}}}, "opresult": []any{map[string]any{"stdout": marker}}}
		var row []any
		for _, f := range args[1].([]any) {
			row = append(row, all[f.(string)])
		}
		return marshal([]any{row}), nil
	}
	for _, resource := range rapi.Resources() {
		for _, path := range paths(strings.Fields(resource)[1]) {
			if a := b.do("GET", path, "", ""); a.code < 400 {
				require.NotContains(t, a.body, marker, path)
			}
		}
	}
	one := b.do("GET", "/2/jobs/7", "", "").body
	require.Contains(t, one, `"argv":["env"]`)
	require.Contains(t, one, `"oplog": [[]]`)
	require.Contains(t, one, `"opresult": [null]`)
	require.Equal(t, 5, strings.Count(b.do("GET", "/2/jobs/7", "ro:secret", "").body, marker), "a user sees all")
	require.Equal(t, 3, strings.Count(b.do("GET", "/2/jobs?bulk=1", "ro:secret", "").body, marker))
}

// A request from a page of another site is refused, also if the name of the site resolves
// to this machine.
func TestForeignPages(t *testing.T) {
	b := newTestServer(t, func(c *rapi.Config) { c.Hosts = []string{"node1.example.com", "localhost", "127.0.0.1", "::1"} })
	code := func(host string, headers ...string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, b.url+"/2/jobs", nil)
		require.NoError(t, err)
		r.Host = host
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Add(name, value)
		}
		response, err := b.client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, host := range []string{"localhost", "LocalHost:5080", "127.0.0.1", "127.0.0.1:9", "[::1]", "[::1]:5080", "node1.example.com:5080", "node1.example.com"} {
		require.Equal(t, 200, code(host), host)
		require.Equal(t, 200, code(host, "Origin: http://"+host), host)
		require.Equal(t, 403, code(host, "Origin: http://evil.example"), host)
		require.Equal(t, 403, code(host, "Origin: null"), host)
		require.Equal(t, 403, code(host, "Origin: http://"+host, "Origin: http://evil.example"), host)
	}
	for _, host := range []string{"evil.example", "evil.example:5080", "127.0.0.1.evil.example", "localhost.evil.example:5080", "[::2]", "127.0.0.2"} {
		require.Equal(t, 403, code(host), host)
		require.Equal(t, 403, code(host, "Origin: http://"+host), host)
	}
	require.Equal(t, 403, code("localhost:5080", "Origin: http://localhost:3000"), "a page of another program")
	open := newTestServer(t)
	require.Equal(t, 403, open.do("GET", "/2/jobs", "", "", "Origin: http://evil.example").code, "of any server")
}

// Every GET has a HEAD without a body. Other methods get an error that lists the existing
// methods.
func TestMethods(t *testing.T) {
	b := newTestServer(t)
	b.luxi.jobs[7] = "queued"
	allowed := map[string][]string{}
	for _, resource := range rapi.Resources() {
		method, pattern := strings.Fields(resource)[0], strings.Fields(resource)[1]
		allowed[pattern] = append(allowed[pattern], method)
	}
	for pattern, methods := range allowed {
		path := paths(pattern)[0] + "?fields=id"
		if slices.Contains(methods, "GET") {
			methods = append(methods, "HEAD")
			a := b.do("HEAD", path, "peer:secret", "")
			require.Empty(t, a.body)
			if pattern != "/3/events" && pattern != "/3/jobs/{id}/log/events" && pattern != "/2/jobs/{id}/wait" && pattern != "/2/filters/{uuid}" && pattern != "/2/nodes/{name}/storage" {
				require.Equal(t, 200, a.code, path)
				require.Equal(t, b.do("GET", path, "peer:secret", "").header.Get("Content-Type"), a.header.Get("Content-Type"), path)
			}
		}
		slices.Sort(methods)
		for _, method := range allMethods {
			if slices.Contains(methods, method) {
				continue
			}
			a := b.do(method, path, "", "")
			require.Equal(t, 405, a.code, "%s %s", method, path)
			require.Equal(t, strings.Join(methods, ", "), a.header.Get("Allow"))
		}
	}
	require.Equal(t, 200, b.do("HEAD", "/3/events", "peer:secret", "").code, "and does not wait for events")
}

// Times below /3 are also given as RFC 3339.
func TestTimesBelow3(t *testing.T) {
	b := newTestServer(t)
	b.luxi.answers["LockstepStatus"] = func([]any) (string, error) {
		return `{"started_ts":[1795334997,500000],"last_id":9007199254740993,"running":[{"start_ts":null},{"start_ts":[1,2]}]}`, nil
	}
	b.requireCode(`{"started_ts":[1795334997,500000],"started":"2026-11-22T08:09:57.5Z","last_id":9007199254740993,
		"running":[{"start_ts":null,"start":null},{"start_ts":[1,2],"start":"1970-01-01T00:00:01.000002Z"}]}`, b.do("GET", "/3/status", "peer:secret", ""))
	b.luxi.answers["LockstepWhy"] = func([]any) (string, error) {
		return `{"id":7,"reasons":[{"kind":"ended","since_ts":[1,0]},{"kind":"locks","since_ts":[1,0],"since":"kept"}]}`, nil
	}
	var why struct{ Reasons []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(b.do("GET", "/3/jobs/7/why", "peer:secret", "").body), &why))
	require.Equal(t, "1970-01-01T00:00:01Z", why.Reasons[0]["since"])
	require.Equal(t, "kept", why.Reasons[1]["since"])
}
