package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// says makes a request of a user of the remote API with the password secret, and returns the code and the text of the answer; user "": of a
// guest.
func (r *remote) says(user, method, path, body string) (code int, text string) {
	r.t.Helper()
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	if user != "" {
		request.SetBasicAuth(user, "secret")
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	return response.StatusCode, string(data)
}

// The life of a schedule over the remote API, as the commands see it.
func TestASchedulesLifeOverTheRemoteAPI(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := d.startRemote("--rapi-tls", "off", "--rapi-allow-commands", "--rapi-require-authentication=false")
	const definition = `{"cron":"30 2 * * *","tz":"Europe/Berlin","jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["echo","hello"]}]]}`
	var changed struct {
		Changed bool
		Jobs    []int64
	}
	require.Equal(t, 200, r.do("PUT", "/3/schedules/nightly", definition, &changed))
	require.True(t, changed.Changed)
	require.Equal(t, 200, r.do("PUT", "/3/schedules/nightly", definition, &changed))
	require.False(t, changed.Changed, "it is so already")
	require.Contains(t, d.said("schedule", "list"), "30 2 * * * Europe/Berlin")
	d.said("schedule", "add", "poll", "--every", "36h", "--", "true")

	type shown struct {
		Name, State, Owner string
		Next, Until        *time.Time
		Upcoming, History  []struct {
			Due    time.Time
			Jobs   []int64
			Missed string
		}
	}
	var page struct {
		Schedules []shown
		Next      *string
	}
	require.Equal(t, 200, r.do("GET", "/3/schedules?limit=1", "", &page))
	require.Equal(t, "nightly", page.Schedules[0].Name)
	require.Empty(t, page.Schedules[0].Upcoming)
	require.Equal(t, 200, r.do("GET", *page.Next, "", &page))
	require.Equal(t, "poll", page.Schedules[0].Name)
	require.Nil(t, page.Next)
	require.Equal(t, 200, r.do("GET", "/3/schedules?search=night", "", &page))
	require.Len(t, page.Schedules, 1)
	one := func() (s shown) {
		require.Equal(t, 200, r.do("GET", "/3/schedules/nightly", "", &s))
		return s
	}
	s := one()
	require.Equal(t, "peer (remote API)", s.Owner)
	var times []time.Time
	require.NoError(t, json.Unmarshal([]byte(d.said("--json", "schedule", "next", "nightly", "-n", "5")), &times))
	require.Len(t, s.Upcoming, 5)
	for i, due := range s.Upcoming {
		require.True(t, due.Due.Equal(times[i]), "%v: %v", s.Upcoming, times)
	}

	require.Equal(t, 201, r.do("POST", "/3/schedules/nightly/run", "", &changed))
	require.Len(t, changed.Jobs, 1)
	d.said("wait", itoa(changed.Jobs[0]))
	require.Equal(t, "hello\n", d.said("log", itoa(changed.Jobs[0])))
	s = one()
	require.Len(t, s.History, 1)
	require.Equal(t, changed.Jobs, s.History[0].Jobs)

	until := time.Now().Add(time.Hour).Truncate(time.Second)
	require.Equal(t, 200, r.do("PUT", "/3/schedules/nightly/pause", `{"until":"`+until.Format(time.RFC3339)+`"}`, nil))
	s = one()
	require.Equal(t, "paused", s.State)
	require.True(t, until.Equal(*s.Until), "%v: %v", until, s.Until)
	require.Contains(t, d.said("schedule", "list"), "paused until")
	require.Equal(t, 200, r.do("DELETE", "/3/schedules/nightly/pause", "", nil))
	require.Equal(t, "active", one().State)

	for _, path := range []string{"/3/schedules", "/3/schedules/nightly"} { // the jobs of a schedule have arguments and environments
		code, text := r.says("", "GET", path, "")
		require.Equal(t, 401, code, "of a guest: %s", text)
	}
	code, text := r.says("peer", "PUT", "/3/schedules/nightly", `{"cron":"0 3 31 2 *","tz":"UTC","jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["true"]}]]}`)
	require.Equal(t, 400, code)
	require.Contains(t, text, "schedule nightly: ")
	code, text = r.says("peer", "PUT", "/3/schedules/nightly", `{"every":60,"jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":[]}]]}`)
	require.Equal(t, 400, code, text)
	require.Equal(t, 200, r.do("DELETE", "/3/schedules/nightly", "", nil))
	require.NotContains(t, d.said("schedule", "list"), "nightly")
	for _, path := range []string{"GET /3/schedules/nightly", "DELETE /3/schedules/nightly", "POST /3/schedules/nightly/run"} {
		method, path, _ := strings.Cut(path, " ")
		code, text := r.says("peer", method, path, "")
		require.Equal(t, 404, code)
		require.Contains(t, text, "There is no schedule nightly")
	}
}

// Users of the remote API with the role submit change own schedules, whose jobs run as their accounts; an operator changes all.
func TestSchedulesOfUsersOfTheRemoteAPI(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	users := "alice secret submit,as=alice\nbob secret submit,as=bob\nina secret read\nolga secret operate\n"
	require.NoError(t, os.WriteFile(d.path("lib", "rapi", "users"), []byte(users), 0o600))
	address := loopback(t, 1)[0]
	c := d.startAgain("--rapi-address", address)
	r := &remote{d.daemon, "http://" + address, &http.Client{Timeout: patience}}
	t.Cleanup(r.client.CloseIdleConnections)
	const definition = `{"every":86400,"jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["/usr/bin/id","-u"],"cwd":"/"}]]}`
	code, text := r.says("bob", "PUT", "/3/schedules/bobs", definition)
	require.Equal(t, 200, code, text)
	require.Equal(t, "bob (remote API)", c.schedule("bobs").Owner)
	for _, request := range []string{"PUT bobs", "DELETE bobs", "POST bobs/run", "PUT bobs/pause", "DELETE bobs/pause"} {
		method, path, _ := strings.Cut(request, " ")
		body := ""
		if request == "PUT bobs" {
			body = definition
		}
		code, text = r.says("alice", method, "/3/schedules/"+path, body)
		require.Equal(t, 403, code, request)
		require.Contains(t, text, "schedule bobs belongs to bob (remote API): to change it needs the role operate", request)
		code, text = r.says("ina", method, "/3/schedules/"+path, body)
		require.Equal(t, 403, code, request)
		require.Contains(t, text, "needs the role submit, ina (remote API) has read", request)
	}
	code, _ = r.says("ina", "GET", "/3/schedules/bobs", "")
	require.Equal(t, 200, code)

	code, text = r.says("olga", "POST", "/3/schedules/bobs/run", "")
	require.Equal(t, 201, code, text)
	var changed struct{ Jobs []int64 }
	require.NoError(t, json.Unmarshal([]byte(text), &changed))
	require.Equal(t, []string{"41001"}, c.await(changed.Jobs[0]).lines(), "it runs as its owner, whoever runs it")
	require.Equal(t, "olga (remote API)", c.schedule("bobs").History[0].By)
	code, text = r.says("olga", "PUT", "/3/schedules/olgas", definition)
	require.Equal(t, 403, code, "without an account: %s", text)
	code, text = r.says("bob", "DELETE", "/3/schedules/bobs", "")
	require.Equal(t, 200, code, text)
}

// What a user of the remote API may do is asked at each due time. A due time that it prevents is missed, with the reason.
func TestTheUserOfAScheduleLosesHisRole(t *testing.T) {
	t.Parallel()
	d := newUsersDaemon(t)
	require.NoError(t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	write := func(line string) {
		require.NoError(t, os.WriteFile(d.path("new"), []byte(line+"\n"), 0o600))
		require.NoError(t, os.Rename(d.path("new"), d.path("lib", "rapi", "users")))
	}
	write("alice secret submit,as=alice")
	address := loopback(t, 1)[0]
	c := d.startAgain("--rapi-address", address)
	r := &remote{d.daemon, "http://" + address, &http.Client{Timeout: patience}}
	t.Cleanup(r.client.CloseIdleConnections)
	code, text := r.says("alice", "PUT", "/3/schedules/tick",
		`{"every":1,"catch_up":"none","overlap":"allow","jobs":[[{"OP_ID":"OP_RUN_COMMAND","argv":["/bin/true"],"cwd":"/"}]]}`)
	require.Equal(t, 200, code, text)
	fires := func() {
		before := len(c.schedule("tick").History)
		require.Eventually(t, func() bool {
			entries := c.schedule("tick").History
			return len(entries) > before && len(entries[len(entries)-1].Jobs) > 0
		}, patience, 20*time.Millisecond)
	}
	misses := func(why string) {
		require.Eventually(t, func() bool {
			entries := c.schedule("tick").History
			return strings.Contains(entries[len(entries)-1].Missed, why)
		}, patience, 20*time.Millisecond, why)
	}
	fires()
	write("alice secret read,as=alice")
	misses("needs the role submit")
	write("bob secret submit,as=bob")
	misses("alice is no user of the remote API of this node")
	write("alice secret submit,as=bob")
	misses("another account")
	write("alice secret submit,as=alice")
	fires()
}
