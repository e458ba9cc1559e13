package wconfd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn"
	"lockstep/actors/kittest"
	"lockstep/messages"
)

// What is no request is answered with a text, and ends the connection.
func TestParseErrorsClose(t *testing.T) {
	for _, frame := range []string{"", "nonsense", "[]", `{"method":"echo"}`, `{"args":[]}`, `{"method":3,"args":[]}`, `{"method":"echo","args":{}}`} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.tell(&conn.Received{Frame: []byte(frame)})
			require.Contains(t, c.answer(), `{"success":false,"result":"Failed to parse request: `)
			require.True(t, c.closed())
		})
	}
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.tell(&conn.Refused{Err: errors.New("too large")})
		require.Equal(t, `{"success":false,"result":"Failed to parse request: too large"}`, c.answer())
		require.True(t, c.closed())
	})
}

// A call whose answer may have been lost is made again, with the same number,
// and has one answer.
func TestCallsAreMadeAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		idle := b.connect()
		started := func() {
			b.Send(b.wconf, &messages.LocksStarted{Incarnation: 2})
			b.Settle()
		}
		c.call("lockConfig", `[`+me+`,false]`)
		first := c.locksAsked("listLocks", `[`+me+`]`)
		started()
		require.Equal(t, first, c.locksAsked("listLocks", `[`+me+`]`))
		c.locksAnswer(first, `[]`)
		second := c.locksAsked("tryUpdateLocks", `[`+me+`,`+exclusive+`]`)
		require.NotEqual(t, first, second)
		c.locksAnswer(first, exclusive) // its second answer
		started()
		require.Equal(t, second, c.locksAsked("tryUpdateLocks", `[`+me+`,`+exclusive+`]`))
		c.locksAnswer(second, `[]`)
		lost := asked[*messages.PublishConfig](c, b.cluster)
		started()
		c.configAnswer(fresh(t))
		require.JSONEq(t, `{"success":true,"result":`+fresh(t)+`}`, c.answer())
		c.tell(&messages.ConfigPublished{Request: lost.Request, Content: []byte("{}")})
		c.silent()
		started()
		b.locks.Quiet()
		b.cluster.Quiet()

		c.call("writeConfig", `[`+me+`,`+fresh(t)+`]`)
		c.locksAnswer(c.locksAsked("listLocks", `[`+me+`]`), exclusive)
		one := asked[*messages.WriteConfig](c, b.cluster)
		started()
		two := asked[*messages.WriteConfig](c, b.cluster)
		require.EqualExportedValues(t, one, two)
		c.tell(&messages.WriteConfigResult{Request: two.Request})
		require.Equal(t, `{"success":true,"result":[]}`, c.answer())
		idle.silent()
	})
}

// What the configuration's actor tells everybody is no answer.
func TestNewsIsNoAnswer(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.call("readConfig", `[]`)
		m := asked[*messages.PublishConfig](c, b.cluster)
		c.tell(&messages.ConfigPublished{Content: []byte(`{}`)})
		c.silent()
		c.tell(&messages.ConfigPublished{Request: m.Request, Content: []byte(fresh(t))})
		require.JSONEq(t, `{"success":true,"result":`+fresh(t)+`}`, c.answer())
	})
}

func TestTheClientLeaves(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.call("readConfig", `[]`)
		c.tell(&conn.Closed{})
		require.True(t, c.closed())
		require.Equal(t, `"x"`, b.connect().result("echo", `["x"]`))
	})
}

func TestAConnectionCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		other := b.connect()
		b.Crash(c.conn.to)
		require.True(t, c.closed())
		require.Equal(t, `"x"`, other.result("echo", `["x"]`))
	})
}

func TestTheGatewayCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		b.Restart(b.wconf)
		require.True(t, c.closed())
		next := b.connect()
		require.Equal(t, `"x"`, next.result("echo", `["x"]`))
		require.NotEqual(t, c.conn.to.Id, next.conn.to.Id)
	})
}

// Idle connections are closed, the call at hand is answered, and nobody new is
// served.
func TestDrain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		idle, supervisor := b.connect(), b.Probe("supervisor")
		c.call("listAllLocks", `[]`)
		request := c.locksAsked("listAllLocks", `[]`)
		for range 2 {
			supervisor.Ask(b.wconf, &messages.Drain{})
			kittest.Expect[*messages.DrainResult](supervisor)
		}
		require.True(t, idle.closed())
		c.silent()
		c.locksAnswer(request, `[]`)
		require.Equal(t, `{"success":true,"result":[]}`, c.answer())
		require.True(t, c.closed())
		late := &fakeConn{}
		b.Send(b.wconf, &conn.Opened{Conn: late})
		b.Settle()
		require.True(t, late.closed)
	})
}
