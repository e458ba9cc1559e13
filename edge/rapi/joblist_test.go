package rapi_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	answers "lockstep/core/answer"
	"lockstep/edge/rapi"
)

func TestArgumentsOfAList(t *testing.T) {
	values, err := url.ParseQuery("status=queued,running&name=night*&user=alice&user=1000&opcode=OP_RUN_*&reason=disk+3,4&since=1970-01-01T00:00:02Z&archived=1&limit=50&cursor=12&order=oldest")
	require.NoError(t, err)
	got, err := rapi.JobsQuery(values)
	require.NoError(t, err)
	require.Equal(t, answers.JobPageRequest{OldestFirst: true, Cursor: 12, JobSelection: answers.JobSelection{
		Statuses: []string{"queued", "running"}, Names: []string{"night*"}, Users: []string{"alice", "1000"}, Opcodes: []string{"OP_RUN_*"},
		Reasons: []string{"disk 3,4"}, SinceUS: 2e6, Archived: true, Limit: 50}}, got)
	for _, wrong := range []string{"status=sleeping", "name=[", "since=yesterday", "archived=maybe", "limit=1001", "limit=x", "cursor=-1", "order=random"} {
		values, err := url.ParseQuery(wrong)
		require.NoError(t, err)
		_, err = rapi.JobsQuery(values)
		require.Error(t, err, wrong)
	}
}

func TestProgressInTheList(t *testing.T) {
	b := newTestServer(t)
	b.luxi.jobs = map[int64]string{7: "running"}
	var page struct {
		Jobs []struct{ Progress json.RawMessage }
	}
	require.NoError(t, json.Unmarshal([]byte(b.do("GET", "/3/jobs", "reader:secret", "").body), &page))
	require.JSONEq(t, `{"percent":40,"text":"copying","since_ts":[100,0],"updated_ts":[140,0],"end_ts":[200,0],"since":"1970-01-01T00:01:40Z",
		"updated":"1970-01-01T00:02:20Z","end":"1970-01-01T00:03:20Z"}`, string(page.Jobs[0].Progress))
}

func TestPagesOfTheList(t *testing.T) {
	b := newTestServer(t)
	b.luxi.jobs = map[int64]string{7: "queued", 8: "success"}
	b.requireCode(`{"jobs":[{"archived":false,"end":null,"end_ts":null,"id":8,"name":"","priority":0,"received":"1970-01-01T00:00:01.000002Z","received_ts":[1,2],
		"result":"","start":null,"start_ts":null,"status":"success","summary":["A"],"user":""}],"cursor":8,"examined":1,"next":"/3/jobs?cursor=8&limit=1&status=success"}`,
		b.do("GET", "/3/jobs?limit=1&status=success", "reader:secret", ""))
	require.Equal(t, []string{`[{"statuses":["success"],"limit":1}]`}, b.luxi.calls("LockstepPageJobs"))
	require.Contains(t, b.failure(400, b.do("GET", "/3/jobs?order=x", "reader:secret", "")), "newest or oldest")
	require.Equal(t, 403, b.do("GET", "/3/jobs", "ro:secret", "").code)
	require.Equal(t, 401, b.do("GET", "/3/jobs", "", "").code)
	head := b.do("HEAD", "/3/jobs", "reader:secret", "")
	require.Equal(t, 200, head.code)
	require.Empty(t, head.body)
	wrong := b.do("PUT", "/3/jobs", "reader:secret", "")
	require.Equal(t, 405, wrong.code)
	require.Equal(t, "GET, HEAD, POST", wrong.header.Get("Allow"))
}

func TestWhatAPageNeedsWriteFor(t *testing.T) {
	b := newTestServer(t)
	b.luxi.jobs = map[int64]string{7: "queued", 8: "success"}
	for request, body := range map[string]string{"DELETE /3/jobs/7": "", "PUT /3/jobs/8/archive": "", "PUT /3/nodes/n2/master": "", "PUT /3/drain": `{"drained":true}`, "PUT /3/settings": `{}`} {
		method, path, _ := strings.Cut(request, " ")
		require.Equal(t, 403, b.do(method, path, "reader:secret", body).code, request)
		require.Equal(t, 200, b.do(method, path, "peer:secret", body).code, request)
	}
	require.Equal(t, 200, b.do("POST", "/3/filters/test", "reader:secret", `{"action":"PAUSE","uuid":null}`).code)
	require.Equal(t, 200, b.do("POST", "/3/filters/test", "reader:secret", `{"action":"PAUSE","for":60}`).code)
	require.Equal(t, []string{`[null,0,[],"PAUSE",[]]`, `[null,0,[],"PAUSE",[],60]`}, b.luxi.calls("LockstepTestFilter"))
	require.Equal(t, 200, b.do("GET", "/3/filters", "reader:secret", "").code)
	require.Contains(t, b.failure(400, b.do("PUT", "/3/drain", "peer:secret", `{"drained":"yes"}`)), "true or false")
}

// A download has exactly the bytes that the commands have written, in their order.
func TestALogIsDownloadedByteForByte(t *testing.T) {
	b := newTestServer(t)
	b.luxi.answers["QueryJobs"] = func(args []any) (string, error) {
		if args[0].([]any)[0] == 9.0 {
			return `[[null, null]]`, nil
		}
		return `[["success", [[[1, [5, 6], "message", "hello"], [2, [5, 6], "stdout", "one"], [3, [5, 6], "stderr-base64", "/wA="]], [[4, [5, 6], "stdout-part", "<b>\u001b[31m"]]]]]`, nil
	}
	all := b.do("GET", "/3/jobs/7/log", "reader:secret", "")
	require.Equal(t, 200, all.code)
	require.Equal(t, "one\n\xff\x00<b>\x1b[31m", all.body)
	require.Equal(t, "application/octet-stream", all.header.Get("Content-Type"))
	require.Equal(t, `attachment; filename="job-7.log"`, all.header.Get("Content-Disposition"))
	require.Equal(t, "0", all.header.Get("Lockstep-Dropped-Bytes"))
	require.Equal(t, "\xff\x00", b.do("GET", "/3/jobs/7/log?stream=stderr", "reader:secret", "").body)
	require.Equal(t, 404, b.do("GET", "/3/jobs/9/log", "reader:secret", "").code)
	require.Equal(t, 400, b.do("GET", "/3/jobs/7/log?stream=x", "reader:secret", "").code)
	require.Equal(t, 403, b.do("GET", "/3/jobs/7/log", "ro:secret", "").code)
}

// A stream of a log has the entries so far, those that come, and the end. A client that connects again goes on.
func TestALogIsFollowed(t *testing.T) {
	b := newTestServer(t)
	b.luxi.answers["QueryJobs"] = func([]any) (string, error) {
		return `[["running", [[[1, [5, 6], "stdout", "one"]]]]]`, nil
	}
	changes := []string{`[["running"], [[2, [5, 6], "stderr-base64", "/wA="]]]`, `"nochange"`, `[["success"], [[3, [5, 6], "output-missing", {"missing":{"stdout":{"lines":1,"bytes":5}}}]]]`}
	b.luxi.answers["WaitForJobChange"] = func([]any) (string, error) {
		next := changes[0]
		changes = changes[1:]
		return next, nil
	}
	stream := b.do("GET", "/3/jobs/7/log/events", "reader:secret", "")
	require.Equal(t, "text/event-stream", stream.header.Get("Content-Type"))
	require.Equal(t, `id: 1
event: log
data: {"serial":1,"time_ts":[5,6],"stream":"stdout","text":"one\n","time":"1970-01-01T00:00:05.000006Z"}

id: 2
event: log
data: {"serial":2,"time_ts":[5,6],"stream":"stderr","text":"","base64":"/wA=","time":"1970-01-01T00:00:05.000006Z"}

id: 3
event: log
data: {"serial":3,"time_ts":[5,6],"stream":"missing","text":"5 bytes of output were dropped here","time":"1970-01-01T00:00:05.000006Z"}

event: end
data: {"status": "success"}

`, stream.body)
	require.Equal(t, []string{`[7,["status"],["running"],1,60]`, `[7,["status"],["running"],2,60]`, `[7,["status"],["running"],2,60]`}, b.luxi.calls("WaitForJobChange"))
	changes = []string{`[["success"], []]`}
	again := b.do("GET", "/3/jobs/7/log/events", "reader:secret", "", "Last-Event-ID: 1")
	require.Equal(t, "event: end\ndata: {\"status\": \"success\"}\n\n", again.body)
	require.Equal(t, 400, b.do("GET", "/3/jobs/7/log/events?after=x", "reader:secret", "").code)
}
