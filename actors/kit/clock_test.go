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
