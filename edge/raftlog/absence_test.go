package raftlog

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// attempt is one to send entries to a node; it returns for how long it was held.
func attempt(a *absence, to raft.ServerID, reached bool) time.Duration {
	start := time.Now()
	a.hold(to)
	a.sent(to, reached)
	return time.Since(start)
}

func TestEntriesAreHeldWhileANodeIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAbsence(nil)
		for range freeFailures {
			a.heard("b")
			require.Zero(t, attempt(a, "b", false))
		}
		time.AfterFunc(3*time.Second, func() { a.heard("c"); a.heard("b") })
		require.Zero(t, attempt(a, "c", false), "another node")
		require.Equal(t, 3*time.Second, attempt(a, "b", false), "until it is heard")
		require.Equal(t, heldMax, attempt(a, "b", false), "each attempt, but not for ever")
		time.AfterFunc(time.Second, func() { a.heard("b") })
		require.Equal(t, time.Second, attempt(a, "b", true))
		require.Zero(t, attempt(a, "b", false), "it was reached")
	})
}

func TestEntriesAreNotHeldAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		a := newAbsence(stop)
		for range freeFailures {
			attempt(a, "b", false)
		}
		time.AfterFunc(time.Second, func() { close(stop) })
		require.Equal(t, time.Second, attempt(a, "b", false))
	})
}
