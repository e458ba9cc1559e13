package luxi_test

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// fakeConn is a client's connection; the test is the client.
type fakeConn struct {
	mu      sync.Mutex
	to      *actor.PID
	answers []string
	closed  bool
}

func (c *fakeConn) Serve(to *actor.PID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = to
}

func (c *fakeConn) Answer(frame []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, string(frame))
}

func (c *fakeConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// bench is a gateway; probes are its neighbours.
type bench struct {
	*testing.T
	*kittest.Env
	queue, jobs, store *kittest.Probe
	luxi               *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), jobs: e.Probe("jobs"), store: e.Probe("store")}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			return nil
		})
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.jobs.PID,
			Store: b.store.PID, Catalogue: opcode.Builtin()}))
		f(t, b, b.connect())
	})
}

// client is one connection with its actor.
type client struct {
	*bench
	conn *fakeConn
}

func (b *bench) connect() *client {
	b.Helper()
	c := &client{b, &fakeConn{}}
	b.Send(b.luxi, &conn.Opened{Conn: c.conn})
	b.Settle()
	return c
}

func (c *client) tell(m any) {
	c.Helper()
	require.NotNil(c, c.conn.to, "nobody serves the connection")
	c.Send(c.conn.to, m)
	c.Settle()
}

// call sends a request, whose args are JSON.
func (c *client) call(method, args string) {
	c.Helper()
	c.tell(&conn.Received{Frame: []byte(`{"method": "` + method + `", "args": ` + args + `, "version": 3000000}`)})
}

// answer is the one answer since the last call.
func (c *client) answer() string {
	c.Helper()
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	require.Len(c, c.conn.answers, 1)
	a := c.conn.answers[0]
	c.conn.answers = nil
	return a
}

// silent: there is no answer yet.
func (c *client) silent() {
	c.Helper()
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	require.Empty(c, c.conn.answers)
	require.False(c, c.conn.closed)
}

func (c *client) closed() bool {
	c.Settle()
	c.conn.mu.Lock()
	defer c.conn.mu.Unlock()
	return c.conn.closed
}

// asked is a question of the connection's actor to a neighbour.
func asked[M any](c *client, p *kittest.Probe) M {
	c.Helper()
	m, from := kittest.ExpectFrom[M](p)
	require.True(c, from.Equal(c.conn.to))
	return m
}

// storeGives answers the reading of a file; "" stands for none.
func (c *client) storeGives(path, content string) {
	c.Helper()
	r := asked[*messages.AccessStore](c, c.store)
	require.Equal(c, path, r.GetRead().GetPath())
	c.tell(kittest.StoreResult(r, &messages.ReadFileResult{Content: []byte(content), Missing: content == ""}))
}

// someJob is a job with an entry in its log.
func someJob(id int64, status job.Status) *job.Job {
	j := jobtest.Named(id)
	j.Received.Usec = 2
	j.Ops[0].Status = status
	j.AppendLog(0, job.Timestamp{Sec: 3, Usec: 4}, "message", json.RawMessage(`"hello"`))
	j.Livelock = "/run/livelocks/" + paths.JobLivelockNameStart(id)
	return j
}

func rowOf(j *job.Job) *messages.JobRow {
	return &messages.JobRow{Id: int64(j.ID), Info: query.NewJobInfo(j, opcode.Summary, job.Encode(j))}
}
