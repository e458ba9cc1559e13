package supervisor_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/core/confd"
	"lockstep/messages"
	"lockstep/supervisor"
)

// shown records the configurations that queries are answered from.
type shown struct {
	mu      sync.Mutex
	serials []int64
}

func (s *shown) Use(snapshot *confd.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serials = append(s.serials, snapshot.Serial())
}

// last returns the serial number of the last configuration; 0: none yet.
func (s *shown) last() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.serials) == 0 {
		return 0
	}
	return s.serials[len(s.serials)-1]
}

func (s *shown) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.serials)
}

// A node without a master shows its configuration, and each change of it while it is the master.
func TestQueriesAreAnsweredInEveryRole(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		before := m.confd.last()
		require.NotZero(t, before)
		m.lead(true)
		m.expectWorking(m.master())
		client := m.Probe("client")
		client.Ask(supervisor.ClusterConfig(m.Env.Env), &messages.EditConfig{Request: 1, Cluster: map[string][]byte{"max_running_jobs": []byte("7")}})
		require.Nil(t, kittest.Expect[*messages.EditConfigResult](client).Failure)
		m.Settle()
		require.Greater(t, m.confd.last(), before)
		now := m.confd.last()
		m.lead(false)
		require.Equal(t, now, m.confd.last())
	})
}

// However often the actor behind the answers fails, it is started again, and nothing else is touched.
func TestAFailureOfTheAnswersTouchesNothingElse(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		master := m.master()
		for range 30 {
			before := m.confd.count()
			m.Crash(m.PID("node/answers/confd"))
			m.Advance(40 * time.Second)
			require.Greater(t, m.confd.count(), before, "it has asked for the configuration again")
		}
		require.Same(t, master, m.master())
		require.False(t, ended(m.node.Done))
		m.expectWorking(master)
	})
}
