package rapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/wire"
	"lockstep/edge/admission"
	"lockstep/edge/luxiclient"
	"lockstep/edge/rapi"
)

func TestJobs(t *testing.T) {
	b := newTestServer(t)
	b.requireCode(`[]`, b.do("GET", "/2/jobs", "", ""))
	b.luxi.jobs = map[int64]string{7: "queued", 12: "success"}
	b.requireCode(`[{"id":7,"uri":"/2/jobs/7"},{"id":12,"uri":"/2/jobs/12"}]`, b.do("GET", "/2/jobs", "", ""))
	b.requireCode(`[{"id":7,"uri":"/2/jobs/7"},{"id":12,"uri":"/2/jobs/12"}]`, b.do("GET", "/2/jobs?bulk=0", "", ""))
	b.luxi.calls("QueryJobs")
	require.Equal(t, http.StatusOK, b.do("GET", "/2/jobs?bulk=1", "", "").code)
	require.Equal(t, []string{`[null,["id","ops","status","summary","opstatus","received_ts","start_ts","end_ts"]]`}, b.luxi.calls("QueryJobs"))
	require.Equal(t, http.StatusOK, b.do("GET", "/2/jobs/7", "", "").code)
	require.Equal(t, []string{`[[7],["id","ops","status","summary","opstatus","received_ts","start_ts","end_ts","oplog","opresult"]]`}, b.luxi.calls("QueryJobs"))
	b.failure(404, b.do("GET", "/2/jobs/99999999999999999999999", "", ""))
	require.Empty(t, b.luxi.calls("QueryJobs"))
	require.Contains(t, b.failure(400, b.do("GET", "/2/jobs?bulk=yes", "", "")), "bulk")
	b.requireCode(`[true,"Dequeued job 7"]`, b.do("DELETE", "/2/jobs/7?dry-run=1", "peer:secret", ""))
}

func TestWait(t *testing.T) {
	b := newTestServer(t)
	b.luxi.jobs = map[int64]string{7: "running"}
	wait := func(body string) answer { return b.do("GET", "/2/jobs/7/wait", "peer:secret", body) }
	b.requireCode(`{"job_info":["running"],"log_entries":[]}`, wait(`{"fields":["status"],"previous_job_info":null}`))
	require.Equal(t, []string{`[7,["status"],null,null,10]`}, b.luxi.calls("WaitForJobChange"))
	wait(`{"fields":["status"],"previous_job_info":["queued"],"previous_log_serial":3,"something":"else"}`)
	require.Equal(t, []string{`[7,["status"],["queued"],3,10]`}, b.luxi.calls("WaitForJobChange"))
	b.luxi.wait = func(context.Context) (string, error) { return `"nochange"`, nil }
	b.requireCode(`null`, wait(`{"fields":["status"]}`))
	for body, want := range map[string]string{
		``: "must be a JSON object", `[]`: "must be a JSON object", `{}`: "Required parameter &#x27;fields&#x27; is missing",
		`{"fields":"status"}`: "should be a list", `{"fields":[1]}`: "list of strings", `{"fields":[null]}`: "list of strings", `{"fields":null}`: "should be a list",
		`{"fields":[],"previous_job_info":1}`: "previous_job_info", `{"fields":[],"previous_log_serial":"1"}`: "previous_log_serial",
		`{"fields":[],"fields":["id"]}`: "twice",
	} {
		require.Contains(t, b.failure(400, wait(body)), want, body)
	}
}

func TestFilterRules(t *testing.T) {
	b := newTestServer(t)
	add := func(body string) answer { return b.do("POST", "/2/filters", "peer:secret", body) }
	b.requireCode(`"`+uuid1+`"`, add(`{"priority":5,"predicates":[["jobid",[">","id","watermark"]]],"action":["RATE_LIMIT",3],"reason":[["a","b",1]]}`))
	require.Equal(t, []string{`[null,5,[["jobid",["\u003e","id","watermark"]]],["RATE_LIMIT",3],[["a","b",1]]]`}, b.luxi.calls("ReplaceFilter"))
	add(`{}`)
	require.Equal(t, []string{`[null,0,[],"CONTINUE",[]]`}, b.luxi.calls("ReplaceFilter"))
	b.requireCode(`"u-1"`, b.do("PUT", "/2/filters/u-1", "peer:secret", `{"action":"PAUSE"}`))
	require.Equal(t, http.StatusOK, b.do("GET", "/2/filters/u-1", "", "").code)
	b.failure(404, b.do("GET", "/2/filters/u-2", "", ""))
	b.failure(404, b.do("GET", "/2/filters/a%2Fb", "", ""))
	require.Contains(t, b.do("GET", "/2/filters/", "", "").body, "u-1")
	require.Equal(t, http.StatusOK, b.do("POST", "/2/filters/", "peer:secret", `{}`).code)
	b.failure(404, b.do("GET", "/2/jobs/", "", ""))
	b.requireCode(`null`, b.do("DELETE", "/2/filters/u-1", "peer:secret", `{}`))
	require.Contains(t, b.failure(500, b.do("DELETE", "/2/filters/u-1", "peer:secret", `{}`)), "u-1")
	for body, want := range map[string]string{
		``: "object", `null`: "object", `"x"`: "object", `{"priority":"1"}`: "priority", `{"priority":1.5}`: "integer", `{"priority":true}`: "integer",
		`{"predicates":{}}`: "predicates", `{"reason":null}`: "reason", `{"uuid":"x"}`: "doesn&#x27;t support the parameter &#x27;uuid&#x27;",
	} {
		require.Contains(t, b.failure(400, add(body)), want, body)
	}
	b.luxi.answers["QueryFilters"] = func([]any) (string, error) { return "", failed("OpPrereqError", `"no such rule"`, `"unknown_entity"`) }
	b.failure(404, b.do("GET", "/2/filters/u-1", "", ""))
}

func TestQueries(t *testing.T) {
	b := newTestServer(t)
	get := func(method, path, body string) answer { return b.do(method, path, "reader:secret", body) }
	require.Equal(t, 200, get("GET", "/2/query/lock?fields=name,%20mode", "").code)
	require.Equal(t, []string{`["lock",["name","mode"],null]`}, b.luxi.calls("Query"))
	require.Equal(t, 200, get("PUT", "/2/query/job", `{"fields":["id"],"qfilter":["==","id",1]}`).code)
	require.Equal(t, 200, get("PUT", "/2/query/job?fields=id", `{"filter":["==","id",1]}`).code)
	require.Equal(t, []string{`["job",["id"],["==","id",1]]`, `["job",["id"],["==","id",1]]`}, b.luxi.calls("Query"))
	require.Equal(t, 200, get("GET", "/2/query/job/fields", "").code)
	require.Equal(t, 200, get("GET", "/2/query/job/fields?fields=id", "").code)
	require.Equal(t, []string{`["job",null]`, `["job",["id"]]`}, b.luxi.calls("QueryFields"))
	for _, path := range []string{"/2/query/job", "/2/query/job?fields="} {
		require.Contains(t, b.failure(400, get("GET", path, "")), "fields")
	}
	require.Contains(t, b.failure(400, get("PUT", "/2/query/job", `{"fields":"id"}`)), "list")
	require.Contains(t, b.failure(400, get("PUT", "/2/query/job", `{}`)), "fields")
}

func TestSubmission(t *testing.T) {
	b := newTestServer(t)
	submit := func(body string) answer { return b.do("POST", "/3/jobs?reason=because", "peer:secret", body) }
	a := submit(`{"ops":[{"OP_ID":"OP_TEST_DELAY","duration":1.50,"reason":[["mine","x",1]]}]}`)
	require.Equal(t, http.StatusCreated, a.code, a.body)
	require.JSONEq(t, `{"ids":[1]}`, a.body)
	require.Equal(t, "/2/jobs/1", a.header.Get("Location"))
	sent := b.luxi.calls("SubmitManyJobs")[0]
	require.Regexp(t, `^\[\[\[\{"OP_ID":"OP_TEST_DELAY","duration":1.50,"reason":\[\["mine","x",1\],\["gnt:user","because",\d{19}\],\["lockstep:rapi","user=peer",\d{19}\]\]\}\]\]\]$`, sent)
	require.JSONEq(t, `{"ids":[2,3]}`, submit(`{"jobs":[[{"OP_ID":"A"}],[{"OP_ID":"B"},{"OP_ID":"C"}]]}`).body)
	require.JSONEq(t, `{"ids":[4]}`, submit(`{"ops":[{"OP_ID":"A"}],"name":"nightly"}`).body)
	require.Regexp(t, `^\[\[\{"ops":\[\{"OP_ID":"A",.*\}\],"name":"nightly"\}\]\]$`, b.luxi.calls("LockstepSubmitJobs")[0])
	require.JSONEq(t, `{"ids":[5,6]}`, submit(`{"jobs":[{"ops":[{"OP_ID":"A"}],"name":"nightly"},[{"OP_ID":"B"}]]}`).body)
	for body, want := range map[string]string{
		`{"jobs":[],"name":"x"}`: "of each job", `{"jobs":[{"ops":[],"hold":true}]}`: "no parameter",
		`{}`: "Give either", `{"ops":[],"jobs":[]}`: "Give either", `{"ops":{}}`: "list", `{"ops":[1]}`: "object", `{"ops":[{}]}`: "OP_ID", `{"jobs":1}`: "list",
		`{"jobs":[1]}`: "list", `{"op":[]}`: "no parameter", `{"ops":[{"OP_ID":1}]}`: "OP_ID", `{"ops":[{"OP_ID":"A","OP_ID":"B"}]}`: "twice",
	} {
		require.Contains(t, b.failure(400, submit(body)), want, body)
	}
	b.luxi.answers["SubmitManyJobs"] = func([]any) (string, error) {
		return "", &wire.RequestError{Text: "Failed to parse request: SubmitManyJobs: Unknown opcode OP_NOPE"}
	}
	require.Equal(t, "Invalid body parameters: Unknown opcode OP_NOPE", b.failure(400, submit(`{"ops":[{"OP_ID":"OP_NOPE"}]}`)))
	b.luxi.answers["SubmitManyJobs"] = func([]any) (string, error) { return "", failed("OpPrereqError", `"too large"`, `"wrong_input"`) }
	require.Equal(t, "too large", b.failure(400, submit(`{"ops":[{"OP_ID":"A"}]}`)))
	b.luxi.answers["SubmitManyJobs"] = func([]any) (string, error) { return `[[false,"no space"]]`, nil }
	require.Contains(t, b.failure(500, submit(`{"ops":[{"OP_ID":"A"}]}`)), "no space")
}

func TestCommandsAreTakenOnlyWherePermitted(t *testing.T) {
	b := newTestServer(t)
	for _, body := range []string{
		`{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]}`, `{"ops":[{"OP_ID":"OP_RUN\u005fCOMMAND","argv":["true"]}]}`,
		`{"ops":[{"\u004fP_ID":"OP_RUN_COMMAND"}]}`, `{"jobs":[[{"OP_ID":"A"}],[{"OP_ID":"A"},{"OP_ID":"OP_RUN_COMMAND"}]]}`,
	} {
		require.Contains(t, b.failure(403, b.do("POST", "/3/jobs", "peer:secret", body)), "--rapi-allow-commands", body)
	}
	require.Empty(t, b.luxi.calls("SubmitManyJobs"))
	b = newTestServer(t, func(c *rapi.Config) { c.Commands.OfAdmins = true })
	require.Equal(t, 201, b.do("POST", "/3/jobs", "peer:secret", `{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]}`).code)
}

func TestJobsOfGanetisResources(t *testing.T) {
	b := newTestServer(t)
	b.requireCode(`1`, b.do("PUT", "/2/redistribute-config?reason=because", "peer:secret", ""))
	require.Regexp(t, `^\[\[\{"OP_ID":"OP_CLUSTER_REDIST_CONF","reason":\[\["gnt:user","because",\d+\],\["gnt:library:rlib2:redist_config","",\d+\],\["lockstep:rapi","user=peer",\d+\]\]\}\]\]$`, b.luxi.calls("SubmitJob")[0])
	b.requireCode(`2`, b.do("PUT", "/2/redistribute-config", "peer:secret", `{"depends":[[1,[]]]}`))
	require.Contains(t, b.luxi.calls("SubmitJob")[0], `"depends":[[1,[]]]`)
	b.requireCode(`3`, b.do("PUT", "/2/modify", "peer:secret", `{"max_running_jobs":3}`))
	require.Contains(t, b.luxi.calls("SubmitJob")[0], `{"OP_ID":"OP_CLUSTER_SET_PARAMS","max_running_jobs":3,"reason":[["gnt:library:rlib2:cluster_modify"`)
	b.failure(403, b.do("PUT", "/2/modify", "peer:secret", `{"compression_tools":[]}`))
	for _, body := range []string{``, `[]`, `{"OP_ID":"OP_RUN_COMMAND"}`, `{"reason":[]}`} {
		b.failure(400, b.do("PUT", "/2/modify", "peer:secret", body))
	}
	b.failure(400, b.do("PUT", "/2/redistribute-config", "peer:secret", `{"OP_ID":"OP_RUN_COMMAND"}`))
	require.Empty(t, b.luxi.calls("SubmitJob"))
}

func TestPriorityWhyAndTheRest(t *testing.T) {
	b := newTestServer(t)
	b.requireCode(`[true,"[7 true]"]`, b.do("PUT", "/3/jobs/7/hold", "peer:secret", ``))
	b.requireCode(`[true,"[7 false]"]`, b.do("DELETE", "/3/jobs/7/hold", "peer:secret", ``))
	b.requireCode(`[true,"Priorities have been changed"]`, b.do("PUT", "/3/jobs/7/priority", "peer:secret", `{"priority":-10}`))
	require.Equal(t, []string{`[7,-10]`}, b.luxi.calls("ChangeJobPriority"))
	b.requireCode(`[true,"[reschedule [7] now]"]`, b.do("PUT", "/3/jobs/7/time", "peer:secret", `{"at":"now"}`))
	for _, body := range []string{``, `{}`, `{"at":"now","x":1}`} {
		b.failure(400, b.do("PUT", "/3/jobs/7/time", "peer:secret", body))
	}
	for _, body := range []string{``, `{}`, `{"priority":"low"}`, `{"priority":1,"x":1}`} {
		b.failure(400, b.do("PUT", "/3/jobs/7/priority", "peer:secret", body))
	}
	for _, path := range []string{"/3/jobs/7/why", "/3/locks", "/3/status", "/3/settings"} {
		require.Equal(t, 200, b.do("GET", path, "reader:secret", "").code, path)
	}
	b.requireCode(`{"ready":true}`, b.do("GET", "/readyz", "", ""))
	b.luxi.err = &luxiclient.ConnectionLostError{Method: "QueryJobs", Err: errors.New("gone")}
	b.failure(503, b.do("GET", "/readyz", "", ""))
	b.requireCode(`{"up":true}`, b.do("GET", "/healthz", "", ""))
}

func TestErrorsOfCalls(t *testing.T) {
	b := newTestServer(t)
	for code, err := range map[int][]error{
		500: {failed("GenericError", `"some <text>"`), failed("ConfigurationError", `"no"`), errors.New("a secret")},
		404: {failed("JobLost", `"Can't load job file"`)},
		502: {&wire.RequestError{Text: "Failed to parse request: x"}, &wire.MalformedResponse{Err: errors.New("x")}, &luxiclient.ConnectionLostError{Method: "X", Err: errors.New("x")}},
		503: {failed("JobQueueFull"), failed("JobQueueDrainError", `"drained"`), admission.ErrBusy},
		504: {&luxiclient.ConnectionLostError{Method: "X", Sent: true, Err: luxiclient.ErrNoAnswer}, &luxiclient.ConnectionLostError{Method: "X", Err: context.DeadlineExceeded}},
	} {
		for _, err := range err {
			b.luxi.err = err
			a := b.do("GET", "/2/jobs", "", "")
			message := b.failure(code, a)
			require.NotContains(t, message, "secret")
			require.NotContains(t, message, "<")
			require.Equal(t, code == 503, a.header.Get("Retry-After") != "", err)
		}
	}
}

func TestMetrics(t *testing.T) {
	b := newTestServer(t)
	b.do("GET", "/2/jobs", "", "")
	b.do("BREW", "/2/jobs", "", "")
	text := b.do("GET", "/metrics", "", "").body
	for _, line := range []string{
		`lockstep_queue_up 1`, `lockstep_jobs{status="queued"} 3`, `lockstep_jobs{status="error"} 0`, `lockstep_run_slots 20`, `lockstep_last_job_id 7`,
		`lockstep_queue_drained 1`, `lockstep_jobs_in_processes 1`, `lockstep_mailbox_messages{kind="queue"} 3`,
		`lockstep_mailbox_messages{kind="wconfd"} 2`, `lockstep_mailbox_messages{kind="wconf"} 2`, `lockstep_dead_letters_total 5`,
		`lockstep_rapi_requests_total{code="200",method="GET",operation="jobs"} 1`, `lockstep_rapi_requests_total{code="405",method="other",operation="unknown"} 1`,
		`lockstep_rapi_connections `, `go_goroutines `,
	} {
		require.Contains(t, text, line)
	}
	b.luxi.err = errors.New("gone")
	require.Contains(t, b.do("GET", "/metrics", "", "").body, "lockstep_jobs", "the queue is not asked again at once")
	require.Len(t, b.luxi.calls("LockstepStatus"), 1)
	b = newTestServer(t)
	b.luxi.err = errors.New("gone")
	text = b.do("GET", "/metrics", "", "").body
	require.Contains(t, text, "lockstep_queue_up 0")
	require.NotContains(t, text, "lockstep_jobs{")
}

// A list of a hundred thousand jobs works.
func TestAVeryLongList(t *testing.T) {
	b := newTestServer(t)
	var rows strings.Builder
	rows.WriteString("[")
	for i := range 100_000 {
		if i > 0 {
			rows.WriteString(",")
		}
		fmt.Fprintf(&rows, `[%d,[{}],"success",["X"],["success"],[1,2],[1,2],[1,2]]`, i)
	}
	rows.WriteString("]")
	b.luxi.answers["QueryJobs"] = func([]any) (string, error) { return rows.String(), nil }
	begin := time.Now()
	a := b.do("GET", "/2/jobs?bulk=1", "", "")
	t.Logf("%d bytes in %v", len(a.body), time.Since(begin))
	require.Len(t, parsed(t, a.body), 100_000)
}
