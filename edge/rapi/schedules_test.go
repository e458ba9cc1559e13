package rapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The list is a page, with the path of the next one; times are there twice.
func TestSchedules(t *testing.T) {
	b := newTestServer(t)
	var page struct {
		Schedules []map[string]any
		Next      *string
	}
	a := b.do("GET", "/3/schedules?search=nig&limit=2", "reader:secret", "")
	require.Equal(t, 200, a.code, a.body)
	require.Equal(t, []string{`[null,{"search":"nig","after":"","limit":2}]`}, b.luxi.calls("LockstepSchedules"))
	require.NoError(t, json.Unmarshal([]byte(a.body), &page))
	require.Equal(t, "/3/schedules?cursor=a&limit=2&search=nig", *page.Next)
	require.Equal(t, "1970-01-01T00:00:06Z", page.Schedules[0]["next"])
	require.Equal(t, "1970-01-01T00:00:01Z", page.Schedules[0]["last"].(map[string]any)["due"])

	b.luxi.answers["LockstepSchedules"] = func([]any) (string, error) { return `{"schedules":[],"zone_data":""}`, nil }
	b.requireCode(`{"schedules":[],"next":null}`, b.do("GET", *page.Next, "reader:secret", ""))
	require.Equal(t, []string{`[null,{"search":"nig","after":"a","limit":2}]`}, b.luxi.calls("LockstepSchedules"))
	b.requireCode(`{"schedules":[],"next":null}`, b.do("GET", "/3/schedules", "reader:secret", ""))
	require.Equal(t, []string{`[null,{"search":"","after":"","limit":200}]`}, b.luxi.calls("LockstepSchedules"))
	require.Contains(t, b.failure(400, b.do("GET", "/3/schedules?limit=1001", "reader:secret", "")), "limit")
	delete(b.luxi.answers, "LockstepSchedules")

	var one struct {
		Name     string
		Upcoming []struct{ Due time.Time }
		History  []struct{ Missed string }
		ZoneData string `json:"zone_data"`
	}
	a = b.do("GET", "/3/schedules/a", "reader:secret", "")
	require.Equal(t, 200, a.code, a.body)
	require.NoError(t, json.Unmarshal([]byte(a.body), &one))
	require.Equal(t, "a", one.Name)
	require.Equal(t, int64(6), one.Upcoming[0].Due.Unix())
	require.Equal(t, "drained", one.History[0].Missed)
	require.Equal(t, "2026a", one.ZoneData)
	require.Contains(t, b.failure(404, b.do("GET", "/3/schedules/nosuch", "reader:secret", "")), "There is no schedule nosuch")
	b.failure(404, b.do("GET", "/3/schedules/a%2Fb", "reader:secret", ""))
	b.failure(401, b.do("GET", "/3/schedules", "", ""))
	b.failure(403, b.do("GET", "/3/schedules/a", "ro:secret", ""))
}

// A definition has seconds, and the daemon gets microseconds and opcodes without entries in their trails, so that the same definition is the
// same each time.
func TestPutSchedule(t *testing.T) {
	b := newTestServer(t)
	put := func(body string, headers ...string) answer {
		return b.do("PUT", "/3/schedules/nightly", "peer:secret", body, headers...)
	}
	b.requireCode(`{"changed":true}`, put(`{"name":"nightly","cron":"0 3 * * *","tz":"Europe/Berlin","every":null,"overlap":"queue","catch_up":"all",
		"catch_up_within":3600,"jitter":0.5,"jobs":[{"name":"x","ops":[{"duration":1,"OP_ID":"OP_TEST_DELAY"}]}]}`))
	require.Equal(t, []string{`[{"catch_up":"all","catch_up_within_us":3600000000,"cron":"0 3 * * *",` +
		`"jitter_us":500000,"jobs":[{"ops":[{"OP_ID":"OP_TEST_DELAY","duration":1}],"name":"x"}],"name":"nightly","overlap":"queue","tz":"Europe/Berlin"},{"replace":true}]`},
		b.luxi.calls("LockstepPutSchedule"))
	put(`{"every":90,"jobs":[[{"OP_ID":"A"}]]}`, "If-None-Match: *")
	require.Equal(t, []string{`[{"every_us":90000000,"jobs":[{"ops":[{"OP_ID":"A"}]}],"name":"nightly"},{"replace":false}]`},
		b.luxi.calls("LockstepPutSchedule"))
	for body, want := range map[string]string{
		``: "must be a JSON object", `{}`: "&#x27;jobs&#x27; parameter should be a list", `{"jobs":[[]],"every_us":1}`: "no parameter &#x27;every_us&#x27;",
		`{"jobs":[[]],"name":"other"}`: "is not &quot;nightly&quot;", `{"jobs":[[]],"every":"90m"}`: "number of seconds", `{"jobs":[[]],"jitter":1e300}`: "number of seconds",
		`{"jobs":[[{}]]}`: "has no OP_ID", `{"jobs":[{"ops":[],"at":"x"}]}`: "no time &#x27;at&#x27;", `{"jobs":["x"]}`: "should be a list",
		`{"jobs":[[{"OP_ID":"A"}],"name","name"]}`: "should be a list", `{"cron":"x","cron":"y"}`: "twice",
	} {
		require.Contains(t, b.failure(400, put(body)), want, body)
	}
	require.Contains(t, b.failure(400, put(`{"jobs":[[]]}`, `If-None-Match: "x"`)), "If-None-Match")
	require.Empty(t, b.luxi.calls("LockstepPutSchedule"))

	b.luxi.answers["LockstepPutSchedule"] = func([]any) (string, error) {
		return "", failed("OpPrereqError", `"schedule nightly: a cron expression needs a time zone"`, `"wrong_input"`)
	}
	require.Contains(t, b.failure(400, put(`{"jobs":[[]]}`)), "needs a time zone")
}

// Orders answer what the queue does.
func TestOrdersForASchedule(t *testing.T) {
	b := newTestServer(t)
	order := func(method, path, body string, code int) (answer, string) {
		a := b.do(method, "/3/schedules/"+path, "member:secret", body)
		require.Equal(t, code, a.code, a.body)
		calls := b.luxi.calls("LockstepOrderSchedule")
		if len(calls) != 1 {
			return a, ""
		}
		return a, calls[0]
	}
	a, asked := order("POST", "nightly/run", "", 201)
	require.Equal(t, `["nightly","run",null]`, asked)
	require.Equal(t, "/2/jobs/1", a.header.Get("Location"))
	require.JSONEq(t, `{"changed":true,"jobs":[1]}`, a.body)
	_, asked = order("PUT", "nightly/pause", "", 200)
	require.Equal(t, `["nightly","pause",null]`, asked)
	_, asked = order("PUT", "nightly/pause", `{"until":null}`, 200)
	require.Equal(t, `["nightly","pause",null]`, asked)
	until := time.Now().Add(time.Hour).Truncate(time.Second)
	_, asked = order("PUT", "nightly/pause", `{"until":"`+until.Format(time.RFC3339)+`"}`, 200)
	require.JSONEq(t, `["nightly","pause",`+marshal(until.Unix())+`]`, asked)
	_, asked = order("DELETE", "nightly/pause", "", 200)
	require.Equal(t, `["nightly","resume",null]`, asked)
	_, asked = order("DELETE", "nightly", "", 200)
	require.Equal(t, `["nightly","remove",null]`, asked)
	for body, want := range map[string]string{
		`[]`: "must be a JSON object", `{"till":1}`: "no parameter", `{"until":5}`: "RFC 3339", `{"until":"tomorrow"}`: "RFC 3339",
		`{"until":"2020-01-01T00:00:00Z"}`: "has passed", `{"until":"2999-01-01T00:00:00Z"}`: "ten years",
	} {
		require.Contains(t, b.failure(400, b.do("PUT", "/3/schedules/nightly/pause", "member:secret", body)), want, body)
	}
	require.Empty(t, b.luxi.calls("LockstepOrderSchedule"))
	for _, path := range []string{"POST nosuch/run", "PUT nosuch/pause", "DELETE nosuch/pause", "DELETE nosuch"} {
		method, path, _ := strings.Cut(path, " ")
		require.Contains(t, b.failure(404, b.do(method, "/3/schedules/"+path, "member:secret", "")), "There is no schedule nosuch", path)
	}
	b.luxi.answers["LockstepOrderSchedule"] = func([]any) (string, error) {
		return "", failed("OpPrereqError", `"The schedule does not run now: job 7 has not ended"`, `"wrong_state"`)
	}
	require.Contains(t, b.failure(400, b.do("POST", "/3/schedules/nightly/run", "member:secret", "")), "job 7 has not ended")
}
