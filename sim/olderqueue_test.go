package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
	"lockstep/supervisor"
)

// olderQueue runs three nodes. The queue of one that does not lead is replaced by an older copy of it; its log lacks what has come since if
// compact is true. Then it is made the master, and a client submits a job.
func olderQueue(t *testing.T, seed uint64, compact bool, mutations Mutations) (w *World, rejoined bool) {
	w = New(Options{Seed: seed, Nodes: 3, Slots: 2, Checkers: clusterCheckers(), Mutations: mutations})
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	c := w.newClient()
	ended, changes, most := 0, 0, 5
	if compact {
		most = 40
	}
	var submit func(then func())
	submit = func(then func()) {
		c.submit([][]OpSpec{{"run run_for=0.1"}}, func(s *submission) {
			if s.ids == nil { // there is no master
				c.later(time.Second, func() { submit(then) })
				return
			}
			c.awaitEnd(s.ids[0], func(string) { ended++; then() })
		})
	}
	settled := func() bool { return w.allVoting() && w.master() != nil }
	submit(func() {})
	w.until(t, "the first job has ended", func() bool { return ended == 1 && settled() })
	n := w.nodes[0]
	if n == w.master() {
		n = w.nodes[1]
	}
	w.until(t, "the node has the job", func() bool { return n.caughtUp() == nil })
	n.cluster.replica.Compact()
	older := n.copyQueue()
	var change func(error)
	change = func(error) { // makes the log long
		if changes++; changes < most {
			c.set(map[string]any{"predictive_ticks": changes}, change)
		}
	}
	submit(func() { change(nil) })
	w.until(t, "more has come", func() bool { return ended == 2 && changes == most && n.caughtUp() == nil })
	if compact {
		n.cluster.replica.Compact()
	}
	n.restoreQueue(older)
	n.startAgain()
	rejoined = n.cluster.wiped
	w.until(t, "the node is back", func() bool { return settled() && n.caughtUp() == nil })
	for end := w.clock.Now().Add(10 * time.Minute); w.master() != n && w.Err() == nil && w.clock.Now().Before(end); w.RunFor(10 * time.Second) {
		if master := w.master(); master != nil {
			master.daemon.request(supervisor.Replicator(master.daemon.env), &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER, Name: n.name}, 5*time.Second, func(any) {})
		}
	}
	submit(func() {})
	w.RunFor(10 * time.Minute)
	return w, rejoined
}

// A node whose queue was replaced by an older copy comes back as a new one, if its log cannot complete the copy. No acknowledged job is lost, and no
// id given again.
func TestAnOlderQueueIsNotUsed(t *testing.T) {
	admits, err := findMutation("lets-in")
	require.NoError(t, err)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w, rejoined := olderQueue(t, seed, true, Mutations{})
			require.NoError(t, w.Err())
			require.True(t, rejoined)
			require.NotNil(t, w.Job(3))

			w, rejoined = olderQueue(t, seed, false, Mutations{})
			require.NoError(t, w.Err())
			require.False(t, rejoined, "its log completes the copy")

			w, rejoined = olderQueue(t, seed, true, admits)
			require.Error(t, w.Err(), "the checkers do not see that the node serves the older queue")
			require.False(t, rejoined)
		})
	}
}
