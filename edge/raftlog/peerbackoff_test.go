package raftlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// timeAttempt makes an attempt to send entries to a node, and returns how long it was
// delayed.
func timeAttempt(a *peerBackoff, to raft.ServerID, reached bool) time.Duration {
	start := time.Now()
	a.wait(to)
	a.report(to, reached)
	return time.Since(start)
}

func TestEntriesWaitWhileANodeIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newPeerBackoff(nil)
		for range undelayedFailures {
			a.heartbeatAnswered("b")
			require.Zero(t, timeAttempt(a, "b", false))
		}
		time.AfterFunc(3*time.Second, func() { a.heartbeatAnswered("c"); a.heartbeatAnswered("b") })
		require.Zero(t, timeAttempt(a, "c", false), "another node")
		require.Equal(t, 3*time.Second, timeAttempt(a, "b", false), "until it is heard")
		require.Equal(t, waitMax, timeAttempt(a, "b", false), "each attempt, but not for ever")
		time.AfterFunc(time.Second, func() { a.heartbeatAnswered("b") })
		require.Equal(t, time.Second, timeAttempt(a, "b", true))
		require.Zero(t, timeAttempt(a, "b", false), "it was reached")
	})
}

func TestEntriesDoNotWaitAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		a := newPeerBackoff(stop)
		for range undelayedFailures {
			timeAttempt(a, "b", false)
		}
		time.AfterFunc(time.Second, func() { close(stop) })
		require.Equal(t, time.Second, timeAttempt(a, "b", false))
	})
}
