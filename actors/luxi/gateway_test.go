package luxi_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/core/job"
	"lockstep/messages"
)

var closedByPeer = &conn.Closed{}

func TestReportJob(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.call("LockstepReportJob", `[7, "/lock", {"id": 7}]`)
		require.JSONEq(t, `{"success":true,"result":null}`, c.answer())
		m := kittest.Expect[*messages.ProcessReported](b.jobs)
		require.EqualExportedValues(t, &messages.ProcessReported{Id: 7, Livelock: "/lock", Encoded: []byte(`{"id": 7}`)}, m)
	})
}

func TestBeginOpcode(t *testing.T) {
	for want, failure := range map[string]*messages.Failure{
		`{"success":true,"result":null}`:                      nil,
		`{"success":false,"result":["JobLost",["not here"]]}`: messages.JobLostFailure("not here"),
	} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.call("LockstepBeginOpcode", `[7, "/lock", 1]`)
			m := asked[*messages.BeginOp](c, b.jobs)
			require.EqualExportedValues(t, &messages.BeginOp{Request: m.Request, Id: 7, Livelock: "/lock", Op: 1}, m)
			c.silent()
			c.tell(&messages.BeginOpResult{Request: m.Request + 1})
			c.silent()
			c.tell(&messages.BeginOpResult{Request: m.Request, Failure: failure})
			require.JSONEq(t, want, c.answer())
			require.False(t, c.closed())
		})
	}
}

// A connection's actor that crashes closes its connection, and no other.
func TestAConnectionCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		other := b.connect()
		b.Crash(c.conn.to)
		require.True(t, c.closed())
		other.call("PickupJob", `[1]`)
		other.answer()
	})
}

func TestTheGatewayCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		b.Restart(b.luxi)
		require.True(t, c.closed())
		next := b.connect()
		next.call("PickupJob", `[1]`)
		next.answer()
		require.NotEqual(t, c.conn.to.Id, next.conn.to.Id)
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
		require.True(t, c.closed())
		late := &fakeConn{}
		b.Send(b.luxi, &conn.Opened{Conn: late})
		b.Settle()
		require.True(t, late.closed)
	})
}

func TestDrainLetsTheRequestAtHandBeAnswered(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.call("SubmitJob", `[[`+delay+`]]`)
		m := asked[*messages.SubmitJobs](c, b.queue)
		drain(b)
		c.silent()
		c.submitted(m, 3)
		require.JSONEq(t, `{"success":true,"result":3}`, c.answer())
		require.True(t, c.closed())
	})
}

// Who waits is told how things stand, and comes back to the next daemon.
func TestDrainEndsWaits(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.wait(`[1, ["status"], ["running"], 1, 60]`, someJob(1, job.Running))
		drain(b)
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.answer())
		require.True(t, c.closed())
	})
}

func TestDrainEndsAWaitThatHasJustBegun(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.call("WaitForJobChange", `[1, ["status"], ["running"], 1, 60]`)
		m := asked[*messages.SubscribeJob](c, b.queue)
		drain(b)
		c.tell(&messages.SubscribeJobResult{Request: m.Request, Row: rowOf(someJob(1, job.Running))})
		require.JSONEq(t, `{"success":true,"result":[["running"],[]]}`, c.answer())
		require.True(t, c.closed())
	})
}

// A timer that was for an earlier request does not end a later one.
func TestTimersEndWithTheirRequest(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		for range 5 {
			c.call("SubmitJob", `[[`+delay+`]]`)
			m := asked[*messages.SubmitJobs](c, b.queue)
			b.Advance(40 * time.Second)
			c.submitted(m, 3)
			require.JSONEq(t, `{"success":true,"result":3}`, c.answer())
		}
		_, more := b.Clock.Next()
		require.False(t, more)
	})
}
