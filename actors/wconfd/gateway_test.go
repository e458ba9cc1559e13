package wconfd_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/actors/conn"
	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/messages"
)

// An invalid frame is answered with a text and ends the connection.
func TestParseErrorsClose(t *testing.T) {
	for _, frame := range []string{"", "nonsense", "[]", `{"method":"echo"}`, `{"args":[]}`, `{"method":3,"args":[]}`, `{"method":"echo","args":{}}`} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Tell(&conn.Received{Frame: []byte(frame)})
			require.Contains(t, c.Answer(), `{"success":false,"result":"Failed to parse request: `)
			require.True(t, c.Closed())
		})
	}
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Tell(&conn.Refused{Err: errors.New("too large")})
		require.Equal(t, `{"success":false,"result":"Failed to parse request: too large"}`, c.Answer())
		require.True(t, c.Closed())
	})
}

// A question that a restart can have lost is sent again with its number. The client gets one answer.
func TestCallsAreMadeAgain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		idle := b.connect()
		started := func() {
			b.Send(b.wconfd, &messages.LocksStarted{Incarnation: 2})
			b.Settle()
		}
		c.Call("lockConfig", `[`+me+`,false]`)
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
		lost := c.configAsked("lockConfig")
		started()
		c.configAnswer("lockConfig", fresh(t))
		require.JSONEq(t, `{"success":true,"result":`+freshText(t)+`}`, c.Answer())
		c.Tell(&clusterconfig.CallResult{Request: lost.Request, Result: []byte("{}")})
		c.Silent()
		started()
		b.locks.Quiet()
		b.cluster.Quiet()
		idle.Silent()
	})
}

func TestTheClientLeaves(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("readConfig", `[]`)
		c.Tell(&conn.Closed{})
		require.True(t, c.Closed())
		require.Equal(t, `"x"`, b.connect().result("echo", `["x"]`))
	})
}

func TestAConnectionCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		other := b.connect()
		b.Crash(c.Conn.Server())
		require.True(t, c.Closed())
		require.Equal(t, `"x"`, other.result("echo", `["x"]`))
	})
}

func TestTheGatewayCrashes(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		b.Restart(b.wconfd)
		require.True(t, c.Closed())
		next := b.connect()
		require.Equal(t, `"x"`, next.result("echo", `["x"]`))
		require.NotEqual(t, c.Conn.Server().Id, next.Conn.Server().Id)
	})
}

// A drain closes idle connections and new ones, after the answer to the current call.
func TestDrain(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		idle, supervisor := b.connect(), b.Probe("supervisor")
		c.Call("listAllLocks", `[]`)
		request := c.locksAsked("listAllLocks", `[]`)
		for range 2 {
			supervisor.Ask(b.wconfd, &messages.Drain{})
			kittest.Expect[*messages.DrainResult](supervisor)
		}
		require.True(t, idle.Closed())
		c.Silent()
		c.locksAnswer(request, `[]`)
		require.Equal(t, `{"success":true,"result":[]}`, c.Answer())
		require.True(t, c.Closed())
		late := &conntest.Conn{}
		b.Send(b.wconfd, &conn.Opened{Conn: late})
		b.Settle()
		require.Equal(t, 1, late.Closes())
	})
}
