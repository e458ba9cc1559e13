package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/messages"
	"lockstep/supervisor"
)

// until steps the world until so returns true, for at most an hour of virtual time.
func (w *World) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := w.clock.Now().Add(time.Hour); !so(); {
		require.True(t, w.clock.Now().Before(end) && w.violation == nil && w.Step(), "%s: %v", what, w.Err())
	}
}

// archivedDependency makes job 3 wait for a run slot. Job 3 depends on job 1, which has
// ended and is archived. Then a node is wiped, is restored from a snapshot, which does not
// contain the archive, and becomes the master.
func archivedDependency(t *testing.T, seed uint64, checker Checker, mutations Mutations) *World {
	w := New(Options{Seed: seed, Nodes: 3, Slots: 1, Checkers: []Checker{checker}, Mutations: mutations})
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	c, archived, left := w.newClient(), false, 40
	var fill func(error)
	fill = func(error) { // makes the log so long that a new node gets a snapshot instead of its beginning
		if left--; left > 0 {
			c.set(map[string]any{"predictive_ticks": left}, fill)
		}
	}
	jobs := [][]OpSpec{{"run run_for=1"}, {"run run_for=500"}, {"run run_for=1 after=1:success priority=10"}}
	var answered func(*submission)
	answered = func(s *submission) {
		if s.ids == nil { // there is no master yet
			c.later(time.Second, func() { c.submit(jobs, answered) })
			return
		}
		c.awaitEnd(1, func(string) { c.archive(1, func() { archived = true; fill(nil) }) })
	}
	c.submit(jobs, answered)
	w.until(t, "the first job is archived", func() bool { return archived && left == 0 && w.allVoting() && w.master() != nil })
	for _, n := range w.nodes {
		n.cluster.replica.Compact()
	}
	n := w.nodes[0]
	if n == w.master() {
		n = w.nodes[1]
	}
	n.wipe()
	w.until(t, "the wiped node is back", func() bool { return w.allVoting() && w.master() != nil && n.caughtUp() == nil })
	require.Nil(t, n.disk.Find(paths.ArchivePath(1)), "no snapshot has the archive")
	transfer := &messages.ChangeNodes{What: messages.ChangeNodes_TRANSFER, Name: n.name}
	master := w.master()
	master.daemon.request(supervisor.Replicator(master.daemon.env), transfer, 10*time.Second, func(any) {})
	w.until(t, "it is the master", func() bool { return w.master() == n })
	return w
}

// A dependency that was met stays met on a master that does not have the archived job.
func TestADependencyOutlivesTheArchiveOfItsJob(t *testing.T) {
	mutations, err := findMutation("unrecorded-ends")
	require.NoError(t, err)
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := archivedDependency(t, seed, &checkDepends{}, Mutations{})
			w.until(t, "the last job ends", func() bool { return w.Job(3).Status().Final() })
			require.Equal(t, job.Success, w.Job(3).Status())

			w = archivedDependency(t, seed, &checkDepends{}, mutations)
			w.RunFor(time.Hour)
			require.ErrorContains(t, w.Err(), "may yet")
		})
	}
}
