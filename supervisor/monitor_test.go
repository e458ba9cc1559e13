package supervisor_test

import (
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/monitor"
	"lockstep/messages"
	"lockstep/supervisor"
)

// noSources never answers: every collector hangs.
type noSources struct{}

func (noSources) Gather(uint64, string, *actor.PID) {}

// wall keeps the last snapshot.
type wall struct {
	mu    sync.Mutex
	last  *monitor.Snapshot
	count int
}

func (w *wall) Show(s *monitor.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = s
	w.count++
}

func (w *wall) shown() *monitor.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}

// The monitor of a node of a cluster shows its role, and the queue while it is the master.
func TestTheMonitorFollowsEveryRole(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.Advance(time.Second)
		s := m.wall.shown()
		require.Nil(t, s.Queue.QueueDetails)
		require.True(t, s.Config.Readable, "a node without a master has its configuration")
		m.lead(true)
		m.expectWorking(m.master())
		m.Advance(time.Second)
		s = m.wall.shown()
		require.Equal(t, monitor.Leader, s.Queue.Role)
		require.Equal(t, int64(1), s.Queue.Jobs.Queued+s.Queue.Jobs.Waiting+s.Queue.Jobs.Running)
		require.Equal(t, monitor.Fine, s.Locks.Status.Code)
		serial := *s.Config.Serial
		client := m.Probe("client")
		client.Ask(supervisor.ClusterConfig(m.Env.Env), &messages.EditConfig{Request: 1, Cluster: map[string][]byte{"max_running_jobs": []byte("7")}})
		require.Nil(t, kittest.Expect[*messages.EditConfigResult](client).Failure)
		m.Advance(time.Second)
		require.Greater(t, *m.wall.shown().Config.Serial, serial)
		m.lead(false)
		m.Advance(time.Second)
		s = m.wall.shown()
		require.Equal(t, monitor.Follower, s.Queue.Role)
		require.Nil(t, s.Queue.Jobs)
		require.True(t, s.Config.Readable)
	})
}

// However often the monitor fails, it is started again and asks for everything, and nothing else is touched.
func TestAFailureOfTheMonitorTouchesNothingElse(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		master := m.master()
		m.expectWorking(master)
		for range 30 {
			before := m.wall.count
			m.Crash(m.PID("node/answers/monitor"))
			m.Advance(40 * time.Second)
			require.Greater(t, m.wall.count, before)
		}
		m.Advance(time.Second)
		s := m.wall.shown()
		require.NotNil(t, s.Queue.QueueDetails, "%+v", s.Queue.Status)
		require.NotNil(t, s.Locks.LockDetails)
		require.True(t, s.Config.Readable)
		require.Same(t, master, m.master())
		require.False(t, ended(m.node.Done))
		m.expectWorking(master)
	})
}
