package distribution

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/config/model"
)

// current is a world whose nodes have everything.
func current(t require.TestingT, nodes ...model.Node) *world {
	w := newWorld(t, nodes...)
	w.distribute()
	w.succeed()
	w.advance(time.Minute)
	return w
}

func TestAwaitNeedsAllNodes(t *testing.T) {
	w := current(t, candidate(2), regular(3))
	w.await(1, "", false)
	require.Equal(t, []uint64{1}, w.released, "all nodes are current")
	w.released = nil

	w.change(true)
	w.await(2, "", false)
	w.await(3, "", false)
	for range 3 {
		w.done(Result{})
		require.Empty(t, w.released)
	}
	w.change(true) // a later change does not prolong the wait
	w.done(Result{})
	require.Equal(t, []uint64{2, 3}, w.released)
}

// An answer that waits for a configuration is released by a newer one.
func TestAwaitOfASkippedState(t *testing.T) {
	w := current(t, candidate(2))
	w.change(true) // goes out
	w.change(true)
	w.await(1, "", false) // waits for a state that is never sent
	w.change(true)
	w.succeed()
	require.Equal(t, []uint64{1}, w.released)
}

// A refusal and a node that is known to fail do not hold up an answer.
func TestAwaitGivesUp(t *testing.T) {
	w := current(t, regular(2))
	w.change(true)
	w.await(1, "", false)
	w.done(Result{Err: errRefused})
	require.Empty(t, w.released)
	w.done(Result{})
	require.Equal(t, []uint64{1}, w.released)

	w.advance(time.Minute)
	for _, pause := range []time.Duration{AwaitMax, 0} {
		w.done(Result{Err: errLost})
		w.advance(pause)
	}
	w.change(true)
	w.done(Result{})
	w.requireSent()
	w.await(2, "", false)
	w.requireSent(w.as("n1 ssconf S")) // at once, in spite of the pause
	require.Equal(t, []uint64{1}, w.released)
	w.done(Result{Err: errLost})
	require.Equal(t, []uint64{1, 2}, w.released)
}

// A node daemon that restarts gets the change within the wait.
func TestAwaitOfARestartingNode(t *testing.T) {
	w := current(t)
	w.change(true)
	w.await(1, "", false)
	began := w.now
	for w.now.Sub(began) < time.Second {
		w.done(Result{Err: errLost})
		require.Empty(t, w.released)
		w.advance(w.wake.Sub(w.now))
		require.Len(t, w.open, 1)
	}
	w.done(Result{})
	require.Equal(t, []uint64{1}, w.released)
}

// A node daemon that does not come back holds up an answer for AwaitMax, and the next answer only until its next failure.
func TestAwaitOfADeadNode(t *testing.T) {
	w := current(t)
	w.change(true)
	w.await(1, "", false)
	w.advance(AwaitMax - 1)
	require.Empty(t, w.released)
	w.advance(1)
	require.Equal(t, []uint64{1}, w.released)
	w.done(Result{Err: errLost})
	w.advance(AwaitMax)
	for len(w.open) > 0 {
		w.done(Result{Err: errLost})
	}
	w.await(2, "", false)
	w.done(Result{Err: errLost})
	require.Equal(t, []uint64{1, 2}, w.released)
}

// Without a configuration an answer waits for the first one, or AwaitMax.
func TestAwaitBeforeTheFirstConfiguration(t *testing.T) {
	w := newWorld(t)
	w.await(1, "", false)
	w.advance(time.Second)
	w.await(2, "", false)
	w.advance(AwaitMax - time.Second)
	require.Equal(t, []uint64{1}, w.released)
	w.distribute()
	require.Equal(t, []uint64{1}, w.released)
	w.succeed()
	require.Equal(t, []uint64{1, 2}, w.released)
}

// A flush sends again to nodes that are current, and to a group alone if it names one.
func TestFlush(t *testing.T) {
	far := candidate(3)
	far.Group = otherGroup
	w := current(t, candidate(2), far)
	w.await(1, "", true)
	w.requireSent(w.as("n1 ssconf S"), w.as("n2 config.data S"), w.as("n2 ssconf S"), w.as("n3 config.data S"), w.as("n3 ssconf S"))
	require.Equal(t, FileState{Wanted: true, Sending: true, Behind: 2 - 1}, w.state("n2").ConfigFile)
	w.succeed()
	require.Equal(t, []uint64{1}, w.released)
	w.await(2, otherGroup, true)
	w.requireSent(w.as("n3 config.data S"), w.as("n3 ssconf S"))
	w.await(3, otherGroup, true) // the calls in progress began before
	w.done(Result{})
	w.done(Result{})
	require.Equal(t, []uint64{1}, w.released)
	w.requireSent(w.as("n3 config.data S"), w.as("n3 ssconf S"))
	w.succeed()
	require.Equal(t, []uint64{1, 2, 3}, w.released)
	w.await(4, "no such group", true)
	require.Equal(t, []uint64{1, 2, 3, 4}, w.released)
}

// A flush of a group waits for its nodes, not for others that are behind.
func TestFlushOfAGroupIgnoresOthers(t *testing.T) {
	far := candidate(3)
	far.Group = otherGroup
	w := current(t, far)
	w.change(true)
	w.await(1, otherGroup, false)
	w.requireSent(w.as("n1 ssconf S"), w.as("n3 config.data S"), w.as("n3 ssconf S"))
	n1 := w.open[0]
	w.open = w.open[1:]
	w.succeed()
	require.Equal(t, []uint64{1}, w.released)
	w.open = []Send{n1}
}

// A node that goes away is not waited for.
func TestAwaitOfALeavingNode(t *testing.T) {
	w := current(t, regular(2))
	w.change(true)
	w.await(1, "", false)
	w.done(Result{})
	require.Empty(t, w.released)
	w.put(offline(regular(2)))
	require.Equal(t, []uint64{1}, w.released)
}
