package supervisor_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
)

// The node's actors restart while the master part of a former mastership stops. The end of
// that part was ordered and does not count as a failure.
func TestACrashWhileTheMasterPartStopsIsNotTheNodesEnd(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		held := m.holdOpen(m.master())
		m.lead(false)
		m.Crash(m.PID("node/store"))
		slow := make(chan struct{})
		m.Panics.Watch(func(name string, msg any) { // the replicator is the last to start again
			if _, ok := msg.(*actor.Restart); ok && name == "node/replicator" {
				<-slow
			}
		})
		m.Advance(time.Second)
		held()
		m.Settle()
		close(slow)
		m.Advance(time.Second)
		m.Panics.Watch(nil)
		require.False(t, ended(m.node.Done))
		m.lead(true)
		m.expectWorking(m.master())
	})
}

// The listeners are notified once that a mastership has ended.
func TestTheEndOfAMastershipIsReportedOnce(t *testing.T) {
	withNode(t, func(t *testing.T, m *member) {
		m.lead(true)
		held := m.holdOpen(m.master())
		m.lead(false)
		m.crash("node/store")
		held()
		m.Settle()
		require.Nil(t, m.master())
		require.Len(t, m.masterships, 2)
	})
}
