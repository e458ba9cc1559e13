package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everyState submits jobs that rest in each state in which a job can rest.
func (r *remote) everyState() {
	r.t.Helper()
	c := r.dial()
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 5})
	// It is not opened: the jobs stay as they are.
	hold, _ := r.gate("hold")
	running := c.submit(hold.with("locks", [][2]string{{"node/held", "exclusive"}}))
	c.awaitStatus(running, "running")
	onRunning := [][]any{{running, []string{"success"}}}

	c.await(c.submit(command("true")))
	c.await(c.submit(command("false")))
	between := c.submit(command("true"), command("true").with("depends", onRunning))
	c.awaitStatus(between, "waiting")
	c.awaitStatus(c.submit(command("true"), command("true").with("locks", [][2]string{{"node/held", "exclusive"}})), "waiting")
	c.awaitStatus(c.submit(command("true").with("depends", onRunning)), "waiting")
	c.awaitStatus(c.submit(command("true").with("depends", onRunning)), "waiting")
	ended := c.submit(command("true").with("depends", onRunning))
	c.awaitStatus(ended, "waiting")
	done, text := c.ask("CancelJob", ended, false)
	require.True(r.t, done, text)
	c.awaitStatus(ended, "canceled")
	c.awaitStatus(c.submit(command("true").with("locks", [][2]string{{"node/held", "exclusive"}})), "waiting") // it has no process
	held := c.submit(hold)
	done, text = c.ask("LockstepHoldJob", held, true)
	require.True(r.t, done, text)
	c.call("LockstepSetSettings", nil, map[string]any{"max_running_jobs": 1})
	c.submit(command("true")) // no slot is free
}

// consolePage returns a page of the console, logged in.
func (r *remote) consolePage(path string) string {
	r.t.Helper()
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.PostForm(r.url+"/ui/login", url.Values{"name": {"peer"}, "password": {"secret"}})
	require.NoError(r.t, err)
	require.NoError(r.t, response.Body.Close())
	request, err := http.NewRequest(http.MethodGet, r.url+path, http.NoBody)
	require.NoError(r.t, err)
	for _, cookie := range response.Cookies() {
		request.AddCookie(cookie)
	}
	response, err = client.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	require.Equal(r.t, http.StatusOK, response.StatusCode, string(page))
	return string(page)
}

// counted are the counts of a text, by the first and the second group of a pattern. Statuses without jobs are left out.
func counted(t *testing.T, pattern, text string) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseInt(found[2], 10, 64)
		require.NoError(t, err)
		if n > 0 {
			counts[found[1]] = n
		}
	}
	return counts
}

// Each door counts the jobs of a queue alike, with jobs in every state, and so do the metrics: they count the job that waits for a lock
// without a process as queued.
func TestEveryDoorCountsAlike(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := d.startRemote("--mond-address", "127.0.0.1:0", "--rapi-allow-commands")
	mond := regexp.MustCompile(`MonD started" address="?([0-9.:]+)`).FindStringSubmatch(d.logged())[1]
	r.everyState()
	program, err := lockstepProgram()
	require.NoError(t, err)
	run := func(args ...string) []byte {
		t.Helper()
		out, err := exec.Command(program, append([]string{"--socket", d.path("run", "socket", "ganeti-query")}, args...)...).Output()
		require.NoError(t, err, "%v", args)
		return out
	}
	listed := map[string]int64{}
	var jobs []struct{ Status string }
	require.NoError(t, json.Unmarshal(run("list", "--json"), &jobs))
	for _, j := range jobs {
		listed[j.Status]++
	}
	require.Equal(t, map[string]int64{"running": 1, "waiting": 5, "queued": 2, "success": 1, "error": 1, "canceled": 1}, listed)

	var status struct{ Jobs map[string]int64 }
	require.NoError(t, json.Unmarshal(run("status", "--json"), &status))
	require.Equal(t, listed, status.Jobs, "status --json")
	text := string(run("status"))
	inWords := map[string]int64{}
	for _, found := range regexp.MustCompile(`(\d+) ([a-z]+)`).FindAllStringSubmatch(text[strings.Index(text, "takes jobs"):strings.Index(text, "Slots")], -1) {
		inWords[found[2]], err = strconv.ParseInt(found[1], 10, 64)
		require.NoError(t, err)
	}
	require.Equal(t, listed, inWords, "status")
	var queried [][]string
	r.dial().call("QueryJobs", &queried, nil, []string{"status"})
	asked := map[string]int64{}
	for _, row := range queried {
		asked[row[0]]++
	}
	require.Equal(t, listed, asked, "a query of jobs")
	require.Equal(t, listed, counted(t, `status=([a-z]+)">.*?<b>(\d+)</b>`, r.consolePage("/ui/")), "the console")
	metered := maps.Clone(listed)
	metered["waiting"]--
	metered["queued"]++
	response, err := r.client.Get(r.url + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	metrics, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, metered, counted(t, `lockstep_jobs\{status="([a-z]+)"\} (\d+)`, string(metrics)), "/metrics")
	var reported map[string]int64
	awaitReport(t, mond, "daemon/queue", "peer", func(data map[string]any) bool {
		reported = map[string]int64{}
		for status, n := range data["jobs"].(map[string]any) {
			if n != 0.0 {
				reported[status] = int64(n.(float64))
			}
		}
		return fmt.Sprint(reported) == fmt.Sprint(metered)
	})
	screen := (&daemon{t: t, root: d.root}).startTop("120")
	screen.shows("1 running, 5 waiting, 2 queued, 1 error, 1 canceled, 1 success")
}
