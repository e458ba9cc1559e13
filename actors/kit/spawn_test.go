package kit

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// TestNameExists is pitfall P10: the producer has not run, and the PID of the other actor
// is not returned.
func TestNameExists(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{{name: "a"}}})
		settle()
		r.send("daemon", do(func(c actor.Context) {
			pid, err := c.SpawnNamed(r.props(spec{name: "a"}), "a")
			require.ErrorIs(t, err, actor.ErrNameExists)
			require.ErrorContains(t, err, "daemon/a")
			require.Nil(t, pid)
			require.Len(t, c.Children(), 1)
		}))
		_, _, err := r.env.SpawnRoot(r.props(spec{name: "daemon"}), "daemon")
		require.ErrorIs(t, err, actor.ErrNameExists)
		settle()
		require.Equal(t, map[string]int{"daemon": 1, "a": 1}, r.instances)
	})
}

// TestRespawnOnTerminated: a name is free once the parent has got Terminated.
func TestRespawnOnTerminated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.root(spec{name: "daemon", children: []spec{{name: "a"}}, react: func(c actor.Context) {
			if _, ok := c.Message().(*actor.Terminated); ok {
				c.SpawnNamed(r.props(spec{name: "a"}), "a")
				require.Len(t, c.Children(), 1)
			}
		}})
		settle()
		pid := r.env.PID("daemon/a")
		for range 20 {
			r.env.System().Root.Stop(pid)
			settle()
		}
		r.forget()
		r.send("daemon/a", "x")
		settle()
		require.Equal(t, []string{"a#21 got x"}, r.of())
	})
}

// TestSpawnWhileLeaving: the library would wait for ever for a child spawned after the
// children were told to stop.
func TestSpawnWhileLeaving(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, done := r.root(spec{name: "daemon", children: []spec{{name: "a"}}, react: func(c actor.Context) {
			switch c.Message().(type) {
			case *actor.Terminated, *actor.Stopping:
				pid, err := c.SpawnNamed(r.props(spec{name: "late"}), "late")
				require.ErrorIs(t, err, ErrStopping)
				require.Nil(t, pid)
			}
		}})
		settle()
		r.env.System().Root.Stop(r.env.PID("daemon"))
		settle()
		require.True(t, isClosed(done))
		require.Zero(t, r.instances["late"])
	})
}

// TestRootIsStoppedWhenItPanics is pitfall P7: the root is not restarted, nothing is
// escalated, the process lives, and done is closed once everything has stopped.
func TestRootIsStoppedWhenItPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		var done <-chan struct{}
		_, done = r.root(spec{name: "daemon", children: []spec{{name: "a", react: func(c actor.Context) {
			if _, ok := c.Message().(*actor.Stopped); ok {
				require.False(t, isClosed(done), "the tree is still stopping")
			}
		}}}})
		settle()
		r.send("daemon", "boom")
		settle()
		require.True(t, isClosed(done))
		require.Equal(t, []string{
			"daemon#1 started", "a#1 started", "daemon#1 got boom", "daemon#1 stopping",
			"a#1 stopping", "a#1 stopped", "daemon#1 terminated daemon/a", "daemon#1 stopped",
		}, r.of())
		require.Equal(t, []string{"daemon stop 1 0s"}, r.failures())
		require.False(t, exists(r, "daemon"))

		_, done = r.root(spec{name: "daemon"})
		require.False(t, isClosed(done), "the name can be used again")
	})
}

func TestRootPanicsInStarted(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, done := r.root(spec{name: "daemon", react: func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				panic("no disk")
			}
		}})
		settle()
		require.True(t, isClosed(done))
		require.Equal(t, []string{"daemon *actor.Started no disk"}, r.panics("actor panicked"))
	})
}

// TestBareRootHasGuardian: this also holds for a root that was not spawned by SpawnRoot.
func TestBareRootHasGuardian(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		_, err := r.env.System().Root.SpawnNamed(r.props(spec{name: "daemon"}), "daemon")
		require.NoError(t, err)
		r.send("daemon", "boom")
		settle()
		require.Equal(t, []string{
			"daemon#1 started", "daemon#1 got boom", "daemon#1 stopping", "daemon#1 stopped",
		}, r.of())
	})
}
