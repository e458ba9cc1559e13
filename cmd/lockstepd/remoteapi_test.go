package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// remote is a client of a daemon's remote API.
type remote struct {
	*daemon
	url    string
	client *http.Client
}

func (d *daemon) startRemote(flags ...string) *remote {
	d.t.Helper()
	require.NoError(d.t, os.MkdirAll(d.path("lib", "rapi"), 0o750))
	require.NoError(d.t, os.WriteFile(d.path("lib", "rapi", "users"), []byte("peer secret write\n"), 0o600))
	d.start(append([]string{"--rapi-address", "127.0.0.1:0"}, flags...)...)
	found := regexp.MustCompile(`remote API started" address="?([0-9.:]+)"? tls=(true|false)`).FindAllStringSubmatch(d.logged(), -1)
	require.NotEmpty(d.t, found, d.logged())
	last := found[len(found)-1]
	scheme := map[string]string{"true": "https://", "false": "http://"}[last[2]]
	return &remote{d, scheme + last[1], &http.Client{Timeout: patience,
		Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
}

func (r *remote) do(method, path, body string, result any) int {
	r.t.Helper()
	request, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	require.NoError(r.t, err)
	request.SetBasicAuth("peer", "secret")
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := r.client.Do(request)
	require.NoError(r.t, err)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	require.NoError(r.t, err)
	if response.StatusCode >= http.StatusBadRequest {
		r.t.Logf("%s %s: %s %s", method, path, response.Status, data)
	}
	if result != nil {
		require.NoError(r.t, json.Unmarshal(data, result), string(data))
	}
	return response.StatusCode
}

// A client of the remote API of a real daemon follows a job from its submission to its end.
func TestARealDaemonsRemoteAPI(t *testing.T) {
	d := newDaemon(t)
	r := d.startRemote("--rapi-tls", "on", "--rapi-allow-commands")
	request, err := http.NewRequest(http.MethodGet, r.url+"/3/events?kinds=job,filter", nil)
	require.NoError(t, err)
	request.SetBasicAuth("peer", "secret")
	response, err := r.client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, 2, response.ProtoMajor)
	lines := bufio.NewScanner(response.Body)
	event := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no event with %s: %v", want, lines.Err())
	}
	event("event: open")

	var uuid string
	require.Equal(t, 200, r.do("POST", "/2/filters", `{"predicates":[["opcode",["=","OP_ID","OP_RUN_COMMAND"]]],"action":"PAUSE"}`, &uuid))
	event(`"change":"added"`)
	var jobs struct{ IDs []int64 }
	require.Equal(t, 201, r.do("POST", "/3/jobs", `{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["echo","hello"]}]}`, &jobs))
	require.Equal(t, []int64{1}, jobs.IDs)
	event(`"id":1,"status":"queued"`)
	var why struct{ Reasons []struct{ Kind string } }
	require.Equal(t, 200, r.do("GET", "/3/jobs/1/why", "", &why))
	require.Equal(t, "filter", why.Reasons[0].Kind)
	require.Equal(t, 200, r.do("DELETE", "/2/filters/"+uuid, "", nil))
	event(`"change":"deleted"`)
	event(`"id":1,"status":"success"`)

	var change struct {
		Info []string `json:"job_info"`
	}
	require.Equal(t, 200, r.do("GET", "/2/jobs/1/wait", `{"fields":["status"]}`, &change))
	require.Equal(t, []string{"success"}, change.Info)
	var j struct {
		Status string
		Ops    []struct{ Reason [][]any }
	}
	require.Equal(t, 200, r.do("GET", "/2/jobs/1", "", &j))
	require.Equal(t, []any{"lockstep:rapi", "user=peer"}, j.Ops[0].Reason[0][:2])
	require.Equal(t, []any{"lockstep:user", "user=peer, from=127.0.0.1"}, j.Ops[0].Reason[1][:2])
	require.Equal(t, 404, r.do("GET", "/2/jobs/99", "", nil))
	r.dial().call("SetDrainFlag", nil, true)
	require.Equal(t, 503, r.do("PUT", "/2/redistribute-config", "", nil))
	for _, path := range []string{"/2/info", "/2/jobs?bulk=1", "/2/query/lock?fields=name", "/2/query/job/fields", "/3/locks", "/3/status", "/3/settings", "/metrics", "/readyz"} {
		require.Equal(t, 200, r.do("GET", path, "", nil), path)
	}
	begin := time.Now()
	require.Equal(t, 0, d.stop(), "with somebody who listens to events")
	require.Less(t, time.Since(begin), 5*time.Second)
}

// Without flags about logins, neither a client without a login nor a page of another site can
// read the jobs. Guessed passwords are refused.
func TestGuestsOfARealDaemon(t *testing.T) {
	d := newDaemon(t)
	r := d.startRemote("--rapi-allow-commands", "--node-name", "Node1.example.com")
	var jobs struct{ IDs []int64 }
	const secret = "s3cr3t"
	require.Equal(t, 201, r.do("POST", "/3/jobs",
		`{"ops":[{"OP_ID":"OP_RUN_COMMAND","argv":["sh","-c","echo s3cr3t; cat"],"env":{"TOKEN":"s3cr3t"},"stdin":"s3cr3t"}]}`, &jobs))
	c := r.dial()
	c.await(jobs.IDs[0])
	guest := func(path, host string) (int, string) {
		request, err := http.NewRequest(http.MethodGet, r.url+path, nil)
		require.NoError(t, err)
		request.Host = host
		response, err := r.client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(data)
	}
	for _, path := range []string{"/", "/version", "/2/info", "/2/jobs", "/2/jobs?bulk=1", "/2/jobs/1", "/2/filters?bulk=1", "/2/query/job?fields=ops", "/3/status", "/3/events"} {
		code, body := guest(path, "localhost")
		require.Equal(t, 401, code, path)
		require.NotContains(t, body, "RUN_COMMAND", path)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		code, body := guest(path, "node1.example.com:5080")
		require.Equal(t, 200, code, path)
		require.NotContains(t, body, "RUN_COMMAND", path)
		require.Equal(t, path == "/metrics", strings.Contains(body, "lockstep_build_info{goversion="), path)
		code, _ = guest(path, "evil.example")
		require.Equal(t, 403, code, path)
	}
	var j map[string]any
	require.Equal(t, 200, r.do("GET", "/2/jobs/1", "", &j))
	require.Contains(t, fmt.Sprint(j), secret)

	require.Equal(t, 0, d.stop())
	r = d.startRemote("--rapi-require-authentication=false")
	for _, path := range []string{"/2/jobs?bulk=1", "/2/jobs/1"} {
		code, body := guest(path, "localhost")
		require.Equal(t, 200, code)
		require.Contains(t, body, "OP_RUN_COMMAND")
		require.NotContains(t, strings.ReplaceAll(body, "echo s3cr3t", ""), secret, path)
	}
	// One guess waits for its check, and the others are refused at once.
	var refused atomic.Int64
	var guesses sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for range 30 {
		guesses.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/2/jobs", nil)
			if err != nil {
				return
			}
			request.SetBasicAuth("peer", "guess")
			response, err := r.client.Do(request)
			if err != nil {
				return
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusTooManyRequests {
				refused.Add(1)
			}
		})
	}
	require.Eventually(t, func() bool { return refused.Load() > 10 }, patience, 10*time.Millisecond)
	cancel()
	guesses.Wait()
}

// Archiving a job makes an event. A client that reconnects after a restart of the daemon
// receives a notice of the gap.
func TestEventsOverARestartOfTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	r := d.startRemote()
	first := r.events("")
	c := r.dial()
	c.await(c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 0.01}))
	c.call("ArchiveJob", nil, 1)
	id := first(`{"id":1,"archived":true}`)
	require.Equal(t, 0, d.stop())
	r = d.startRemote()
	r.events(id)("the daemon is another one")
}

// events listens to events. The returned function returns the id of the first event that
// contains a text.
func (r *remote) events(last string) func(want string) string {
	request, err := http.NewRequest(http.MethodGet, r.url+"/3/events", nil)
	require.NoError(r.t, err)
	request.SetBasicAuth("peer", "secret")
	request.Header.Set("Last-Event-ID", last)
	response, err := r.client.Do(request)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { response.Body.Close() })
	lines, id := bufio.NewScanner(response.Body), ""
	next := func(want string) string {
		r.t.Helper()
		for lines.Scan() {
			if value, is := strings.CutPrefix(lines.Text(), "id: "); is {
				id = value
			}
			if strings.Contains(lines.Text(), want) {
				return id
			}
		}
		r.t.Fatalf("no event with %s: %v", want, lines.Err())
		return ""
	}
	if last == "" {
		next("event: open")
	}
	return next
}

func TestAnAddressThatIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	d := newDaemon(t)
	out, err := exec.Command(filepath.Join(programs, "lockstepd"), d.args("--rapi-address", l.Addr().String())...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "rapi-address: ")
	require.Contains(t, string(out), "address already in use")
}

// packages names the environment variable with the directory into which Debian's
// package python3-ganeti-rapi was extracted.
const packages = "GANETI_PACKAGES"

// Ganeti's own client, as Debian packages it, works against a real daemon. The test needs
// Python with pycurl and simplejson.
func TestConformanceOfGanetisRapiClient(t *testing.T) {
	extracted := os.Getenv(packages)
	if extracted == "" {
		t.Skipf("NOT RUN: %s is not set; `make conformance` gets Ganeti's packages and sets it", packages)
	}
	d := newDaemon(t)
	r := d.startRemote("--rapi-tls", "on")
	host, port, err := net.SplitHostPort(strings.TrimPrefix(r.url, "https://"))
	require.NoError(t, err)
	script := exec.Command("/usr/bin/python3", filepath.Join("testdata", "rapi_client.py"), host, port, "peer", "secret")
	share := filepath.Join(extracted, "usr/share/ganeti/3.0")
	script.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(extracted, "usr/lib/python3/dist-packages")+":"+share, "PYTHONDONTWRITEBYTECODE=1")
	out, err := script.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.True(t, strings.HasSuffix(string(out), "all is well\n"), "%s", out)
}
