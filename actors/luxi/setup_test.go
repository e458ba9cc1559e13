package luxi_test

import (
	"encoding/json"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/job"
	"lockstep/core/job/jobtest"
	"lockstep/core/opcode"
	"lockstep/core/paths"
	"lockstep/core/query"
	"lockstep/messages"
)

// bench is a gateway with probes as its neighbours.
type bench struct {
	*testing.T
	*kittest.Env
	queue, jobs, store *kittest.Probe
	events             *kittest.Probe
	luxi               *actor.PID
}

func onBench(t *testing.T, f func(*testing.T, *bench, *client)) {
	t.Helper()
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		b := &bench{T: t, Env: e, queue: e.Probe("queue"), jobs: e.Probe("jobs"), store: e.Probe("store"), events: e.Probe("events")}
		b.store.Answer(func(m any) any {
			if _, ok := m.(*messages.AnnounceStore); ok {
				return &messages.StoreStarted{Incarnation: 1}
			}
			return nil
		})
		b.luxi = e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: b.queue.PID, Jobs: b.jobs.PID,
			Store: b.store.PID, Events: b.events.PID, Catalogue: opcode.Builtin()}))
		f(t, b, b.connect())
	})
}

// client is one connection with its actor.
type client struct {
	*bench
	*conntest.Client
}

func (b *bench) connect() *client {
	return &client{b, conntest.Connect(b.T, b.Env, b.luxi)}
}

// asked is a message of the connection's actor to a neighbour.
func asked[M any](c *client, p *kittest.Probe) M {
	c.Helper()
	return conntest.Asked[M](c.Client, p)
}

// storeGives answers the read of a file. "" means that there is no file.
func (c *client) storeGives(path, content string) {
	c.Helper()
	r := asked[*messages.AccessStore](c, c.store)
	require.Equal(c, path, r.GetRead().GetPath())
	c.Tell(&messages.AccessStoreResult{Request: r.Request, What: &messages.AccessStoreResult_Read{
		Read: &messages.ReadFileResult{Content: []byte(content), Missing: content == ""}}})
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
