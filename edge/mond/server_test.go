package mond_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/sirupsen/logrus"
	logrustest "github.com/sirupsen/logrus/hooks/test"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kit"
	actormonitor "lockstep/actors/monitor"
	"lockstep/core/budget"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/monitor"
	"lockstep/edge/admission"
	"lockstep/edge/gather"
	"lockstep/edge/login"
	"lockstep/edge/mond"
	"lockstep/edge/rapi"
	"lockstep/messages"
)

// server is a MonD with a snapshot of the test.
type server struct {
	testing.TB
	board  *mond.Board
	url    string
	addr   string
	client *http.Client
}

func newServer(t testing.TB, change ...func(*mond.Config)) *server {
	t.Helper()
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("reader secret read\nnobody secret\n"), 0o600))
	log, _ := logrustest.NewNullLogger()
	log.SetLevel(logrus.TraceLevel)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{TB: t, board: mond.NewBoard(), addr: l.Addr().String(), url: "http://" + l.Addr().String(),
		client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}}
	c := mond.Config{Log: log, Listener: l, Board: s.board, Logins: login.New(users, log), Table: admission.NewTable()}
	for _, f := range change {
		f(&c)
	}
	if c.TLS != nil {
		s.url = "https://" + s.addr
	}
	m := mond.New(c)
	done := make(chan error, 1)
	go func() { done <- m.Serve() }()
	t.Cleanup(func() {
		m.Stop()
		s.client.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = m.Shutdown(ctx) // connections of bad clients may be cut off
		require.NoError(t, <-done)
	})
	s.board.Show(snapshot(t))
	return s
}

// A page of another site whose name is made to lead to loopback reads nothing: its requests have that name as Host.
func TestForeignHosts(t *testing.T) {
	s := newServer(t, func(c *mond.Config) { c.Hosts = []string{"localhost", "127.0.0.1", "::1"} })
	open := newServer(t)
	for host, code := range map[string]int{"": 200, "localhost": 200, "LOCALHOST:1815": 200, "127.0.0.1:9": 200, "[::1]:1815": 200,
		"evil.example": 403, "evil.example:1815": 403, "127.0.0.1.evil.example": 403, "127.0.0.2": 403} {
		for _, path := range []string{"/", "/1/report/all", "/metrics", "/healthz"} {
			for at, want := range map[*server]int{s: code, open: 200} {
				request, err := http.NewRequest(http.MethodGet, at.url+path, nil)
				require.NoError(t, err)
				request.Host = host
				response, err := at.client.Do(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, want, response.StatusCode, "%s at %q", path, host)
			}
		}
	}
}

// A user is not refused for the memory that others have who come from the same address.
func TestAUserBehindAFullAddress(t *testing.T) {
	table := admission.NewTable()
	others := table.Share(admission.UID(os.Getuid()), func() {}) // who connect over loopback, as this test does
	require.NoError(t, others.Grow(budget.ClientBytesMax))
	s := newServer(t, func(c *mond.Config) { c.Table = table })
	for user, want := range map[string]int{"reader": http.StatusOK, "": http.StatusServiceUnavailable} {
		request, err := http.NewRequest(http.MethodGet, s.url+"/1/list/collectors", nil)
		require.NoError(t, err)
		if user != "" {
			request.SetBasicAuth(user, "secret")
		}
		response, err := s.client.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, want, response.StatusCode, "user %q", user)
	}
}

// snapshot has reports of Ganeti's and of own collectors.
func snapshot(t testing.TB) *monitor.Snapshot {
	now := time.Now()
	q := monitor.NewQueue()
	q.Listed(nil)
	q.Changed(now, []*messages.JobInfo{{Id: 1, Status: int32(job.Running), ReceivedUs: 1, StartUs: 2_000_001}, {Id: 2, Status: int32(job.Success), ReceivedUs: 1, StartUs: 5}}, 4)
	locks := monitor.NewLocks()
	locks.Changed(now, []lock.Record{{Owner: lock.JobOwner(4711, "/l", 1), Locks: []lock.Item{{Lock: lock.Member(lock.Node, "a"), Mode: lock.Exclusive}}}}, true)
	cluster := monitor.NewCluster()
	cluster.Changed(monitor.View{Role: monitor.Leader, Term: 3, Leader: "secretnode", Applied: 9, Members: []monitor.Member{{Name: "secretnode", Voter: true}}})
	cluster.Answered(now, []monitor.MemberState{{Name: "secretnode", Answers: true, Applied: 9}})
	queue, lockReport, replication := q.Report(now, monitor.Leader, monitor.QueueState{}), locks.Report(now, monitor.Leader), cluster.Report(now)
	s := &monitor.Snapshot{Taken: now, Queue: &queue, Locks: &lockReport, Replication: &replication, Ready: true}
	data := map[string]monitor.Data{monitor.QueueName: queue.Data(), monitor.LocksName: lockReport.Data(), monitor.Replication: replication.Data()}
	for _, c := range monitor.Collectors() {
		switch d, known := data[c.Name]; {
		case known:
			s.Reports = append(s.Reports, monitor.NewReport(c, now, d))
		case c.Name == monitor.CPULoad:
			s.Reports = append(s.Reports, monitor.NewReport(c, now, monitor.Data{Full: map[string]any{"cpu_total": 0.5}}))
		case c.Name == monitor.DRBD:
			s.Reports = append(s.Reports, monitor.Failed(c, now, "DRBD 9 is not supported", ""))
		}
	}
	s.Listing = monitor.EncodeListing(s.Reports)
	return s
}

func (s *server) request(method, path, user string) *http.Response {
	s.Helper()
	r, err := http.NewRequest(method, s.url+path, http.NoBody)
	require.NoError(s, err)
	if user != "" {
		r.SetBasicAuth(user, "secret")
	}
	response, err := s.client.Do(r)
	require.NoError(s, err)
	return response
}

func (s *server) get(path, user string) (int, string) {
	s.Helper()
	response := s.request(http.MethodGet, path, user)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(s, err)
	return response.StatusCode, string(body)
}

func TestResources(t *testing.T) {
	s := newServer(t)
	for path, want := range map[string]string{
		"/": "200 [1]", "/1": "200 null", "/1/": "200 null",
		"/1/list/collectors":               `200 [["cpu-avg-load","default",0],["drbd","storage",1],["queue","daemon",1],["locks","daemon",1],["replication","daemon",1]]`,
		"/1/list/collectors/x?verbose=1":   `200 [["cpu-avg-load","default",0],["drbd","storage",1],["queue","daemon",1],["locks","daemon",1],["replication","daemon",1]]`,
		"/1/list":                          "404 Resource not found",
		"/2":                               "404 Resource not found",
		"/01":                              "404 Resource not found",
		"//1/report/all":                   "404 Resource not found",
		"/1.0":                             "404 Resource not found",
		"/1/report":                        "404 Unable to produce a report for the requested resource",
		"/1/report/storage/":               "404 Unable to produce a report for the requested resource",
		"/1/report/storage/cpu-avg-load":   "404 Unable to produce a report for the requested resource",
		"/1/report/null/cpu-avg-load":      "404 Unable to produce a report for the requested resource",
		"/1/report/default/CPU-AVG-LOAD":   "404 Unable to produce a report for the requested resource",
		"/1/report/storage/lv":             "404 Unable to produce a report for the requested resource",
		"/1/report/default/" + long(10000): "404 Unable to produce a report for the requested resource",
		"/healthz":                         `200 {"up":true}`,
		"/readyz":                          `200 {"ready":true}`,
	} {
		code, body := s.get(path, "")
		require.Equal(t, want, fmt.Sprintf("%d %s", code, body), path)
	}
	_, plain := s.get("/1/report/default/cpu-avg-load", "")
	require.Contains(t, plain, `"category":null,"kind":0,"data":{"cpu_total":0.5}}`)
	_, encoded := s.get("/1/report/default/cpu%2davg-load/more?x", "")
	require.Equal(t, plain, encoded)
	_, drbd := s.get("/1/report/storage/drbd", "")
	require.Contains(t, drbd, `"data":{"status":{"code":2,"message":"DRBD 9 is not supported"}}`)
	_, all := s.get("/1/report/all/x", "")
	var reports []json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(all), &reports))
	require.Len(t, reports, 5)
	s.board.Show(&monitor.Snapshot{})
	code, _ := s.get("/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

func long(n int) string { return strings.Repeat("x", n) }

func TestMethods(t *testing.T) {
	s := newServer(t)
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"} {
		response := s.request(method, "/1/list/collectors", "")
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, response.StatusCode, method)
		require.Equal(t, "GET, HEAD", response.Header.Get("Allow"))
	}
	head := s.request(http.MethodHead, "/1/report/all", "")
	body, err := io.ReadAll(head.Body)
	require.NoError(t, err)
	require.NoError(t, head.Body.Close())
	require.Empty(t, body)
	_, all := s.get("/1/report/all", "")
	require.Equal(t, int64(len(all)), head.ContentLength)
	require.Equal(t, "application/json", head.Header.Get("Content-Type"))
}

func TestOnlyALoginShowsNames(t *testing.T) {
	s := newServer(t)
	for _, path := range []string{"/1/report/all", "/metrics", "/1/report/daemon/locks", "/1/report/daemon/replication"} {
		_, public := s.get(path, "")
		code, full := s.get(path, "reader")
		require.Equal(t, http.StatusOK, code)
		for _, secret := range []string{"4711", "secretnode"} {
			require.NotContains(t, public, secret, path)
		}
		require.True(t, strings.Contains(full, "4711") || strings.Contains(full, "secretnode"), path)
	}
	for user, want := range map[string]int{"nobody": http.StatusForbidden, "stranger": http.StatusUnauthorized} {
		code, _ := s.get("/1/report/all", user)
		require.Equal(t, want, code, user)
	}
	r := s.request(http.MethodGet, "/", "stranger")
	require.NoError(t, r.Body.Close())
	require.Equal(t, `Basic realm="Ganeti Remote API"`, r.Header.Get("WWW-Authenticate"))
	none := newServer(t, func(c *mond.Config) { c.Logins = nil })
	code, _ := none.get("/", "reader")
	require.Equal(t, http.StatusUnauthorized, code)
}

// fromElsewhere gives all connections the address of another machine.
type fromElsewhere struct{ net.Listener }

type elsewhereConn struct{ net.Conn }

func (l fromElsewhere) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return elsewhereConn{c}, nil
}

func (elsewhereConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 5}
}

func TestALoginFromElsewhereNeedsTLS(t *testing.T) {
	move := func(c *mond.Config) { c.Listener = fromElsewhere{c.Listener} }
	plain := newServer(t, move)
	code, _ := plain.get("/1/report/all", "")
	require.Equal(t, http.StatusOK, code)
	code, _ = plain.get("/1/report/all", "reader")
	require.Equal(t, http.StatusForbidden, code)
	dir := t.TempDir()
	_, err := rapi.EnsureCertificate(filepath.Join(dir, "c"), filepath.Join(dir, "k"), []string{"localhost"}, time.Now())
	require.NoError(t, err)
	secure, err := rapi.TLSConfig(filepath.Join(dir, "c"), filepath.Join(dir, "k"))
	require.NoError(t, err)
	encrypted := newServer(t, move, func(c *mond.Config) { c.TLS = secure })
	code, body := encrypted.get("/1/report/all", "reader")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, "4711")
}

func TestClientsThatAreNotAllowedAreDisconnected(t *testing.T) {
	allow := func(text string) func(*mond.Config) {
		return func(c *mond.Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix(text)} }
	}
	s := newServer(t, allow("192.0.2.0/24"))
	_, err := s.client.Get(s.url) //nolint:bodyclose // there is no response
	require.Error(t, err)
	s = newServer(t, allow("192.0.2.0/24"), func(c *mond.Config) { c.Listener = fromElsewhere{c.Listener} })
	code, _ := s.get("/", "")
	require.Equal(t, http.StatusOK, code)
	s = newServer(t, allow("127.0.0.0/8"))
	code, _ = s.get("/", "")
	require.Equal(t, http.StatusOK, code)
}

// Prometheus and the reports have the same values: both are of one snapshot.
func TestMetricsHaveTheValuesOfTheReports(t *testing.T) {
	s := newServer(t)
	_, text := s.get("/metrics", "reader")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	found, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	value := func(name string, label ...string) float64 {
		t.Helper()
		require.Contains(t, found, name)
		for _, m := range found[name].Metric {
			if len(label) == 0 || m.Label[0].GetValue() == label[0] {
				return m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetHistogram().GetSampleSum()
			}
		}
		t.Fatalf("%s has no %v", name, label)
		return 0
	}
	report := func(name string) map[string]any {
		var r struct{ Data map[string]any }
		_, body := s.get("/1/report/daemon/"+name, "reader")
		require.NoError(t, json.Unmarshal([]byte(body), &r))
		return r.Data
	}
	queue, jobs := report("queue"), report("queue")["jobs"].(map[string]any)
	for _, status := range []string{"queued", "waiting", "running", "canceling"} {
		require.Equal(t, jobs[status], value("lockstep_jobs", status))
	}
	for _, status := range []string{"success", "error", "canceled"} {
		require.Equal(t, jobs[status], value("lockstep_jobs_finished_total", status))
	}
	require.Equal(t, queue["started_total"], value("lockstep_jobs_started_total"))
	require.Equal(t, queue["archived_total"], value("lockstep_jobs_archived_total"))
	require.InDelta(t, 2.000004, value("lockstep_job_start_seconds"), 1e-9)
	locks := report("locks")
	require.Equal(t, locks["held"].(map[string]any)["exclusive"], value("lockstep_locks_held", "exclusive"))
	require.Equal(t, locks["pending"], value("lockstep_lock_waiting_owners"))
	replication := report("replication")
	require.Equal(t, replication["term"], value("lockstep_raft_term"))
	require.Equal(t, replication["applied_index"], value("lockstep_raft_applied_index"))
	require.Equal(t, 0.0, value("lockstep_replication_lag_entries", "secretnode"))
	require.Equal(t, 1.0, value("lockstep_raft_leader"))
	require.Equal(t, 2.0, value("lockstep_collector_status", "drbd"))
	for _, column := range []string{"cpu_", "disk_"} {
		require.NotContains(t, text, "lockstep_"+column, "processors and disks are those of other exporters")
	}
	r, err := http.NewRequest(http.MethodGet, s.url+"/metrics", http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	response, err := s.client.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Contains(t, response.Header.Get("Content-Type"), "openmetrics")
}

// raw sends bytes and returns the answer up to the end of the connection.
func (s *server) raw(text string) string {
	s.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s, err)
	defer c.Close()
	require.NoError(s, c.SetDeadline(time.Now().Add(30*time.Second)))
	_, _ = io.WriteString(c, text) // the server may close the connection before it has all
	answer, _ := io.ReadAll(c)
	return string(answer)
}

func TestBadRequests(t *testing.T) {
	s := newServer(t)
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\n\r\n":                                        "HTTP/1.1 400", // no Host
		"GET /" + long(64<<10) + " HTTP/1.1\r\nHost: x\r\n\r\n":         "HTTP/1.1 431",
		"GET / HTTP/1.1\r\nHost: x\r\nX: " + long(64<<10) + "\r\n\r\n":  "HTTP/1.1 431",
		"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 nonsense\r\n\r\n": "HTTP/1.1 400",
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n": "HTTP/1.1 405",
		"GET / HTTP/1.0\r\n\r\n":                                        "HTTP/1.0 200",
	} {
		require.True(t, strings.HasPrefix(s.raw(text), want), "%.40q: %.60q", text, s.raw(text))
	}
	code, _ := s.get("/", "")
	require.Equal(t, http.StatusOK, code)
}

// Clients that send nothing or slow headers fill the connections, and lose theirs; others are served.
func TestSlowHeaders(t *testing.T) {
	s := newServer(t, func(c *mond.Config) { c.Connections = 4 })
	var slow []net.Conn
	for range 20 {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer c.Close()
		slow = append(slow, c)
	}
	code, _ := s.get("/", "") // an idle connection makes room
	require.Equal(t, http.StatusOK, code)
	last := slow[len(slow)-1]
	_, err := io.WriteString(last, "GET / HTTP/1.1\r\nHo")
	require.NoError(t, err)
	require.NoError(t, last.SetReadDeadline(time.Now().Add(20*time.Second)))
	begin := time.Now()
	_, err = bufio.NewReader(last).ReadBytes(0)
	require.ErrorIs(t, err, io.EOF)
	require.Less(t, time.Since(begin), 15*time.Second)
}

// bare is the cheapest server that can answer with as many bytes.
func bare(b *testing.B, body []byte) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

// BenchmarkFullReport compares the full report with a bare answer of the same size.
func BenchmarkFullReport(b *testing.B) {
	s := newServer(b)
	full := snapshot(b)
	disks := bytes.Repeat([]byte(" 8 0 sda 123456 2345 3456789 45678 56789 67 789012 8901 0 90123 12345 1 2 3 4 5 6\n"), 40)
	d, err := monitor.DiskStatsData(disks)
	require.NoError(b, err)
	full.Reports = append(full.Reports, monitor.NewReport(monitor.Collector{Name: monitor.DiskStats, Category: "storage"}, time.Now(), d))
	s.board.Show(full)
	compare(b, s, "cached")
	env := kit.New(kit.Options{Clock: kit.RealClock()})
	pid, done, err := env.SpawnRoot(actormonitor.Props(actormonitor.Config{Env: env, Board: s.board, Started: time.Now(),
		Sources: hanging{gather.New(gather.Config{System: env.System(), Proc: "/proc"})}}), "monitor")
	require.NoError(b, err)
	require.Eventually(b, func() bool { _, all := s.get("/1/report/all", ""); return strings.Contains(all, "lockstepd") }, 10*time.Second, 10*time.Millisecond)
	compare(b, s, "hanging")
	env.System().Root.Stop(pid)
	<-done
}

// hanging never answers for lv.
type hanging struct{ *gather.Sources }

func (h hanging) Gather(number uint64, collector string, to *actor.PID) {
	if collector != monitor.LV {
		h.Sources.Gather(number, collector, to)
	}
}

// compare measures the full report and a bare answer of the same size in turn, so that the load of the machine is the same for both. The
// metric ratio is the quotient of their medians.
func compare(b *testing.B, s *server, name string) {
	_, body := s.get("/1/report/all", "")
	urls := []string{s.url + "/1/report/all", bare(b, []byte(body))}
	b.Run(name, func(b *testing.B) {
		var times [2][]time.Duration
		for b.Loop() {
			for i, url := range urls {
				begin := time.Now()
				response, err := s.client.Get(url)
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, response.Body)
				require.NoError(b, err)
				require.NoError(b, response.Body.Close())
				times[i] = append(times[i], time.Since(begin))
			}
		}
		median := func(i int) float64 { slices.Sort(times[i]); return times[i][len(times[i])/2].Seconds() }
		b.ReportMetric(median(0)/median(1), "ratio")
		b.ReportMetric(median(0)*1e6, "µs/report")
		b.ReportMetric(median(1)*1e6, "µs/bare")
		b.ReportMetric(float64(len(body)), "bytes")
	})
}

// A client that guesses passwords is told when there were too many, and when it may try again.
func TestAGuesserIsToldThatThereWereTooMany(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("reader secret read\n"), 0o600))
	log, _ := logrustest.NewNullLogger()
	synctest.Test(t, func(t *testing.T) {
		m := mond.New(mond.Config{Log: log, Board: mond.NewBoard(), Logins: login.New(users, log), Table: admission.NewTable()})
		for guess := range 10 {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = "127.0.0.1:5000"
			r.SetBasicAuth("reader", "wrong")
			w := httptest.NewRecorder()
			m.ServeHTTP(w, r)
			if guess < 8 {
				require.Equal(t, http.StatusUnauthorized, w.Code)
				require.Equal(t, "Unauthorized", w.Body.String())
				require.Equal(t, `Basic realm="Ganeti Remote API"`, w.Header().Get("WWW-Authenticate"))
				continue
			}
			require.Equal(t, http.StatusTooManyRequests, w.Code)
			require.Equal(t, "The name or the password is wrong, and too many logins have failed; wait before you try again", w.Body.String())
			require.Equal(t, "3", w.Header().Get("Retry-After"))
		}
	})
}
