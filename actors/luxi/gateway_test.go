package luxi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

var closedByPeer = &conn.Closed{}

func TestReportJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepReportJob", `[7, "/lock", {"id": 7}]`)
		require.JSONEq(t, `{"success":true,"result":null}`, c.Answer())
		m := kittest.Expect[*messages.ProcessReported](b.jobs)
		require.EqualExportedValues(t, &messages.ProcessReported{Id: 7, Livelock: "/lock", Encoded: []byte(`{"id": 7}`)}, m)

		// The condition; a later version may add keys, and the bounds hold whoever reports.
		c.Call("LockstepReportJob", `[7, "/lock", null, {"error": "full", "since_us": 5, "reader_since_us": 6, "unchanged": true, "new": 1,
			"progress": {"percent": 400, "text": "a\u001b[2J`+strings.Repeat("x", 200)+`", "since_us": 7, "updated_us": 8}}]`)
		c.Answer()
		m = kittest.Expect[*messages.ProcessReported](b.jobs)
		require.EqualExportedValues(t, &messages.ProcessReported{Id: 7, Livelock: "/lock", WriteError: "full", FailingSinceUs: 5, ReaderSinceUs: 6,
			Unchanged: true, Progress: &messages.CommandProgress{Percent: 100, Text: "a [2J" + strings.Repeat("x", 95), SinceUs: 7, UpdatedUs: 8}}, m)
	})
}

func TestBeginOpcode(t *testing.T) {
	for want, failure := range map[string]*messages.Failure{
		`{"success":true,"result":null}`:                      nil,
		`{"success":false,"result":["JobLost",["not here"]]}`: messages.JobLostFailure("not here"),
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("LockstepBeginOpcode", `[7, "/lock", 1]`)
			m := asked[*messages.BeginOp](c, b.jobs)
			require.EqualExportedValues(t, &messages.BeginOp{Request: m.Request, Id: 7, Livelock: "/lock", Op: 1}, m)
			c.Silent()
			c.Tell(&messages.BeginOpResult{Request: m.Request + 1})
			c.Silent()
			c.Tell(&messages.BeginOpResult{Request: m.Request, Failure: failure})
			require.JSONEq(t, want, c.Answer())
			require.False(t, c.Closed())
		})
	}
}

// A crash of a connection's actor closes that connection alone.
func TestAConnectionCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		other := b.connect()
		b.Crash(c.Conn.Server())
		require.True(t, c.Closed())
		other.Call("PickupJob", `[1]`)
		other.Answer()
	})
}

func TestTheGatewayCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		b.Restart(b.luxi)
		require.True(t, c.Closed())
		next := b.connect()
		next.Call("PickupJob", `[1]`)
		next.Answer()
		require.NotEqual(t, c.Conn.Server().Id, next.Conn.Server().Id)
	})
}

func drain(b *bench) {
	supervisor := b.Probe("supervisor")
	supervisor.Ask(b.luxi, &messages.Drain{})
	kittest.Expect[*messages.DrainResult](supervisor)
	supervisor.Ask(b.luxi, &messages.Drain{})
	kittest.Expect[*messages.DrainResult](supervisor)
}

func TestDrainClosesIdleConnections(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		drain(b)
		require.True(t, c.Closed())
		late := &conntest.Conn{}
		b.Send(b.luxi, &conn.Opened{Conn: late})
		b.Settle()
		require.Equal(t, 1, late.Closes())
	})
}

func TestDrainAnswersTheCurrentRequest(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		drain(b)
		c.Silent()
		c.submitted(m, 3)
		require.JSONEq(t, `{"success":true,"result":3}`, c.Answer())
		require.True(t, c.Closed())
	})
}

// A client that waits for a job gets the job's present state.
func TestDrainEndsWaits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		drain(b)
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.Answer())
		require.True(t, c.Closed())
	})
}

func TestDrainEndsAWaitThatHasJustBegun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("WaitForJobChange", `[1, ["status"], ["running"], 1, 60]`)
		m := asked[*messages.SubscribeJob](c, b.queue)
		drain(b)
		c.Tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Running))})
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.Answer())
		require.True(t, c.Closed())
	})
}

// The timer of a request does not end a later request.
func TestTimersEndWithTheirRequest(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for range 5 {
			c.Call("SubmitJob", `[[`+delay+`]]`)
			m := asked[*messages.SubmitJobs](c, b.queue)
			b.Advance(40 * time.Second)
			c.submitted(m, 3)
			require.JSONEq(t, `{"success":true,"result":3}`, c.Answer())
		}
		_, more := b.Clock.Next()
		require.False(t, more)
	})
}
