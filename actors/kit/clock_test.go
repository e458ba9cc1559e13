package kit

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSendAfter: timers are messages of the Env's clock (pitfall P9).
func TestSendAfter(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		pid, _ := r.root(spec{name: "daemon"})
		SendAfter(r.env.Clock(), r.env.System(), 3*second, pid, "tick")
		stop := SendAfter(r.env.Clock(), r.env.System(), 2*second, pid, "tock")
		r.clock.advance(2*second - 1)
		settle()
		require.Equal(t, []string{"daemon#1 started"}, r.of())

		require.True(t, stop())
		require.False(t, stop())
		r.clock.advance(second)
		settle()
		require.Equal(t, []string{"daemon#1 started"}, r.of())
		r.clock.advance(second)
		settle()
		require.Equal(t, []string{"daemon#1 started", "daemon#1 got tick"}, r.of())
	})
}

// Each mastership of a node has a tree with the same names.
func TestSendAfterReachesNoLaterActorOfTheSameName(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		pid, done := r.root(spec{name: "daemon"})
		SendAfter(r.env.Clock(), r.env.System(), 2*second, pid, "tick of the first")
		r.env.System().Root.Stop(pid)
		<-done
		pid, _ = r.root(spec{name: "daemon"})
		SendAfter(r.env.Clock(), r.env.System(), 3*second, pid, "tick of the second")
		settle()
		r.forget()
		r.clock.advance(4 * second)
		settle()
		require.Equal(t, []string{"daemon#2 got tick of the second"}, r.of())
	})
}

// An actor that its supervisor has restarted is the same one.
func TestSendAfterReachesARestartedActor(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", policy: &Policy{Backoff: second, Limit: 3, Window: time.Minute}, children: []spec{{name: "queue"}}})
		settle()
		SendAfter(r.env.Clock(), r.env.System(), 10*second, r.env.PID("daemon/queue"), "tick")
		r.send("daemon/queue", "boom")
		settle()
		r.clock.advance(10 * second)
		settle()
		require.Contains(t, r.of(), "queue#2 got tick")
	})
}

func TestRealClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, fired := RealClock(), make(chan time.Time, 2)
		start := c.Now()
		stop := c.AfterFunc(time.Hour, func() { fired <- c.Now() })
		prevented := c.AfterFunc(time.Minute, func() { fired <- c.Now() })
		require.True(t, prevented())
		require.Equal(t, time.Hour, (<-fired).Sub(start))
		require.False(t, stop())
	})
}
