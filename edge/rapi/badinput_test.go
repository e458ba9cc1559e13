package rapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/edge/admission"
	"lockstep/edge/rapi"
)

func TestBodies(t *testing.T) {
	b := newTestServer(t)
	add := func(body string, headers ...string) answer {
		return b.do("POST", "/2/filters", "peer:secret", body, headers...)
	}
	const max = 10 << 20
	for name, test := range map[string]struct {
		code int
		a    answer
		want string
	}{
		"too large":            {413, add(`"` + strings.Repeat("x", max) + `"`), "10485760 bytes"},
		"bad JSON":             {400, add(`{nope`), "Unable to parse JSON data"},
		"two values":           {400, add(`{} {}`), "Unable to parse JSON data"},
		"not UTF-8":            {400, add("{\"action\":\"\xff\"}"), "Unable to parse JSON data"},
		"very deep":            {400, add(strings.Repeat("[", 1<<20)), "Unable to parse JSON data"},
		"no type":              {415, add(`{}`, "Content-Type: "), "application/json"},
		"text":                 {415, add(`{}`, "Content-Type: text/plain"), "application/json"},
		"parameters":           {415, add(`{}`, "Content-Type: application/json; charset=utf-8"), "without parameters"},
		"no body where needed": {400, add(``), "object"},
		"of a GET":             {400, b.do("GET", "/2/jobs", "", "{nope"), "no body"},
	} {
		require.Contains(t, b.failure(test.code, test.a), test.want, name)
	}
	require.Equal(t, 200, add(`{}`, "Content-Type: Application/JSON").code)
	require.Equal(t, 200, add(`{"reason":[["`+strings.Repeat("x", max-100)+`","",1]]}`).code)
}

// raw sends text over a connection and returns the status code of the answer.
func (b *testServer) raw(text string) (int, error) {
	c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.NoError(b, err)
	b.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	require.NoError(b, err)
	return readCode(b, c)
}

func readCode(t testing.TB, c net.Conn) (int, error) {
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func TestRequestsThatAreNone(t *testing.T) {
	b := newTestServer(t)
	for text, code := range map[string]int{
		"nonsense\r\n\r\n": 400,
		"GET /version HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n":                                  431,
		"GET /version HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 20<<10) + "\r\n":                                  431,
		"POST /2/filters HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\nContent-Length: 99999999999\r\n\r\n": 413,
		"POST /2/filters HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n":                                          401,
		"GET /2//jobs HTTP/1.1\r\nHost: a\r\n\r\n":                                                                            404,
		"GET /2/../version HTTP/1.1\r\nHost: a\r\n\r\n":                                                                       404,
		"GET /2/jobs/ HTTP/1.1\r\nHost: a\r\n\r\n":                                                                            404,
		"GET http://other/version HTTP/1.1\r\nHost: a\r\n\r\n":                                                                200,
		"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n":                                                                               404,
		"OPTIONS /2/jobs HTTP/1.1\r\nHost: a\r\n\r\n":                                                                         405,
	} {
		got, err := b.raw(text)
		require.NoError(t, err, "%.60s", text)
		require.Equal(t, code, got, "%.60s", text)
	}
}

// A client that sends slowly, or nothing, does not block other clients.
func TestSlowSenders(t *testing.T) {
	b := newTestServer(t)
	address := strings.TrimPrefix(b.url, "http://")
	for i := range 200 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		text := "POST /2/filters HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\nContent-Length: 1000000\r\n\r\n{"
		_, err = io.WriteString(c, text[:len(text)-i%3*40])
		require.NoError(t, err)
	}
	begin := time.Now()
	for range 20 {
		require.Equal(t, 200, b.do("POST", "/2/filters", "peer:secret", `{}`).code)
	}
	require.Less(t, time.Since(begin), 5*time.Second)
}

// A thousand idle connections make room for an active one, and take little memory.
func TestIdleConnections(t *testing.T) {
	const most = 300
	b := newTestServer(t, func(c *rapi.Config) { c.Connections = most })
	address := strings.TrimPrefix(b.url, "http://")
	idle := make([]net.Conn, 0, 1000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1000 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		if i%2 == 1 { // it has made a request and stays open
			_, err = io.WriteString(c, "GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
			require.NoError(t, err)
			_, _ = readCode(t, c)
		}
		idle = append(idle, c)
	}
	require.Equal(t, 200, b.do("GET", "/2/jobs", "", "").code)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d kB in use for %d connections", (int64(after.HeapInuse+after.StackInuse)-int64(before.HeapInuse+before.StackInuse))>>10, len(idle))
	text := b.do("GET", "/metrics", "", "").body
	require.Contains(t, text, fmt.Sprintf("lockstep_rapi_connections %d\n", most))
	// The oldest connections are closed.
	require.NoError(t, idle[0].SetReadDeadline(time.Now().Add(10*time.Second)))
	_, err := idle[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

// At the limit connections with a request at work stay open, and new ones are refused at once. A connection that only waits for
// something to happen gives way.
func TestConnectionsInUseAreKept(t *testing.T) {
	b := newTestServer(t, func(c *rapi.Config) { c.Connections = 2 })
	release := make(chan struct{})
	b.luxi.work = func(method string) {
		if method == "CancelJob" {
			<-release
		}
	}
	var cancels sync.WaitGroup
	for range 2 {
		cancels.Go(func() {
			if a := b.do("DELETE", "/2/jobs/1", "peer:secret", ""); a.code != 200 {
				t.Errorf("%d %s", a.code, a.body)
			}
		})
	}
	require.Eventually(t, func() bool { return len(b.luxi.calledMethods()) == 2 }, 10*time.Second, time.Millisecond)
	_, err := b.raw("GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
	require.Error(t, err)
	close(release)
	cancels.Wait()
	require.Eventually(t, func() bool {
		_, err := b.raw("GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)

	b.client.CloseIdleConnections()
	for range 3 {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET /3/events HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\n\r\n")
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 200 OK\r\n", line)
	}
	require.Equal(t, 200, b.do("GET", "/2/jobs", "ro:secret", "").code)
}

// inTurns makes calls in the turns of their clients, as a Pool does.
type inTurns struct {
	rapi.LargeLuxi
	table *admission.Table
	asked atomic.Int64
}

func (l *inTurns) CallParts(ctx context.Context, class rapi.Class, method string, args ...any) ([][]byte, error) {
	l.asked.Add(1)
	ctx, release, err := l.table.Turn(ctx, class)
	if err != nil {
		return nil, err
	}
	defer release()
	return l.LargeLuxi.CallParts(ctx, class, method, args...)
}

// Requests that wait for their turn are not at work: a client with as many of them as there are connections keeps no other out.
func TestRequestsThatWaitForTheirTurnGiveWay(t *testing.T) {
	const most = 20
	calls := &inTurns{}
	b := newTestServer(t, func(c *rapi.Config) {
		calls.LargeLuxi, calls.table = c.Luxi, c.Table
		c.Connections, c.Luxi = most, calls
	})
	release := make(chan struct{})
	defer close(release)
	b.luxi.work = func(method string) {
		if method == "Query" {
			<-release
		}
	}
	for range most {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET /2/query/lock?fields=name HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\n\r\n")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return calls.asked.Load() == most }, 20*time.Second, time.Millisecond)
	for range 5 {
		require.Equal(t, 200, b.do("GET", "/3/status", "reader:secret", "").code)
	}
}

// An answer that its client does not take keeps its memory, not its turn: others are answered, and the client gets no more.
func TestAnswersThatNobodyReads(t *testing.T) {
	table := admission.NewTable()
	b := newTestServer(t, func(c *rapi.Config) { c.Table = table })
	large := `[[1, "` + strings.Repeat("x", 24<<20) + `"]]`
	b.luxi.answers["Query"] = func([]any) (string, error) { return large, nil }
	address := strings.TrimPrefix(b.url, "http://")
	for range 12 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		_, err = io.WriteString(c, "GET /2/query/lock?fields=name HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\n\r\n")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(b.luxi.calledMethods()) == 12 }, 20*time.Second, time.Millisecond)
	require.Contains(t, b.failure(503, b.do("GET", "/2/query/lock?fields=name", "peer:secret", "")), "try again")
	require.LessOrEqual(t, table.Used(), 64<<20)
	require.Equal(t, 200, b.do("GET", "/2/query/lock?fields=name", "reader:secret", "").code)
	require.Equal(t, 200, b.do("GET", "/2/jobs", "peer:secret", "").code, "a small answer")
}

// A list that its client does not take is made a chunk at a time, and keeps no turn meanwhile: any number of them leaves the turns to
// others.
func TestListsThatNobodyReadsKeepNoTurn(t *testing.T) {
	table := admission.NewTable()
	b := newTestServer(t, func(c *rapi.Config) { c.Table = table })
	rows := strings.Repeat(`[1],`, 1<<20)
	b.luxi.answers["QueryJobs"] = func([]any) (string, error) { return "[" + rows + "[1]]", nil }
	for range 8 {
		c, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4096))
		_, err = io.WriteString(c, "GET /2/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\n\r\n")
		require.NoError(t, err)
	}
	require.Eventually(t, func() bool { return len(b.luxi.calledMethods()) == 8 }, 20*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return table.Active(admission.Render) == 0 }, 20*time.Second, time.Millisecond)
	require.Equal(t, 200, b.do("GET", "/metrics", "", "").code)
}

// A hundred bodies that never come keep no connection from others.
func TestBodiesThatNeverCome(t *testing.T) {
	b := newTestServer(t, func(c *rapi.Config) { c.Connections = 50 })
	address := strings.TrimPrefix(b.url, "http://")
	for range 100 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "POST /2/filters HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAuthorization: Basic cGVlcjpzZWNyZXQ=\r\nContent-Length: 1000000\r\n\r\n")
		require.NoError(t, err)
	}
	require.Equal(t, 200, b.do("GET", "/2/jobs", "reader:secret", "").code)
}

// A field that a query names often would multiply its answer.
func TestNoFieldTwice(t *testing.T) {
	b := newTestServer(t)
	for _, a := range []answer{
		b.do("GET", "/2/query/job?fields=id,oplog,oplog", "peer:secret", ""),
		b.do("PUT", "/2/query/job", "peer:secret", `{"fields":["id","id"]}`),
		b.do("GET", "/2/query/job/fields?fields=id,id", "peer:secret", ""),
		b.do("GET", "/2/jobs/1/wait", "peer:secret", `{"fields":["status","status"]}`),
	} {
		require.Contains(t, b.failure(400, a), "twice")
	}
}

func (l *fakeLuxi) calledMethods() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// A crash of a handler affects only its request.
func TestACrash(t *testing.T) {
	b := newTestServer(t)
	b.luxi.answers["CancelJob"] = func([]any) (string, error) { panic("oops") }
	require.Equal(t, "Internal Server Error", b.failure(500, b.do("DELETE", "/2/jobs/1", "peer:secret", "")))
	require.Equal(t, 200, b.do("GET", "/2/jobs", "", "").code)
}

// An orderly stop answers the requests in progress, ends waiting ones, and accepts no
// further request.
func TestStop(t *testing.T) {
	b := newTestServer(t)
	release := make(chan struct{})
	b.luxi.wait = func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	called := make(chan struct{})
	b.luxi.answers["CancelJob"] = func([]any) (string, error) { close(called); <-release; return `[true,"done"]`, nil }
	waited, canceled := make(chan answer, 1), make(chan answer, 1)
	go func() { waited <- b.do("GET", "/2/jobs/1/wait", "peer:secret", `{"fields":[]}`) }()
	require.Eventually(t, func() bool { return len(b.luxi.calledMethods()) == 1 }, 10*time.Second, time.Millisecond)
	go func() { canceled <- b.do("DELETE", "/2/jobs/1", "peer:secret", "") }()
	<-called
	stopping := make(chan struct{})
	go func() { b.stop(); close(stopping) }()
	b.requireCode(`null`, <-waited)
	close(release)
	b.requireCode(`[true,"done"]`, <-canceled)
	<-stopping
	_, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	require.Error(t, err)
}

func FuzzBodies(f *testing.F) {
	f.Add([]byte(`{"fields":["status"],"previous_job_info":null,"previous_log_serial":3}`))
	f.Add([]byte(`{"ops":[{"OP_ID":"OP_TEST_DELAY","duration":1,"reason":[[1]]}]}`))
	f.Add([]byte(`{"jobs":[[{"OP_ID":"OP_RUN_COMMAND"}],[]]}`))
	f.Add([]byte(`{"priority":1,"predicates":[],"action":"PAUSE","reason":[]}`))
	f.Add([]byte(`{"a":1,"a":2}`))
	shared := newTestServer(f)
	shared.luxi.jobs = map[int64]string{7: "success"}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := *shared
		b.TB = t
		for _, target := range [][2]string{{"POST", "/3/jobs"}, {"GET", "/2/jobs/7/wait"}, {"POST", "/2/filters"}, {"PUT", "/2/query/job"}, {"PUT", "/2/modify"}, {"PUT", "/3/jobs/7/priority"}} {
			a := b.do(target[0], target[1], "peer:secret", string(body))
			if a.code >= 500 {
				t.Fatalf("%s %s: %d %s", target[0], target[1], a.code, a.body)
			}
		}
		for _, sent := range b.luxi.calls("SubmitManyJobs") {
			if strings.Contains(sent, `"OP_ID":"OP_RUN_COMMAND"`) {
				t.Fatalf("a command came through: %s", sent)
			}
		}
	})
}
