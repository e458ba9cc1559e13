package sim

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/config/clusterconfig"
	"lockstep/core/config"
)

// pausesSecond pauses the jobs with the reason "second".
func pausesSecond() rule {
	return rule{uuid: "00000001-0000-4000-8000-000000000001", predicates: predicateList([]json.RawMessage{predicate("reason", "reason", "=", "second")}), action: "PAUSE"}
}

// fill submits jobs without locks, so that there is something to see.
func (c *client) fill() {
	jobs := make([][]OpSpec, 40)
	for i := range jobs {
		jobs[i] = []OpSpec{"run run_for=1"}
	}
	c.submit(jobs, nil)
}

// submitLater submits jobs of one opcode, a second apart, and then calls done.
func (c *client) submitLater(done func(), ops ...OpSpec) {
	if len(ops) == 0 {
		done()
		return
	}
	c.submit([][]OpSpec{{ops[0]}}, nil)
	c.later(time.Second, func() { c.submitLater(done, ops[1:]...) })
}

// The checker of the order expected finds a reservation of an ineligible job, a less urgent job that takes the locks of an
// urgent one, and an empty slot beside a job that could run.
func TestCheckExpectedBites(t *testing.T) {
	for name, c := range map[string]struct {
		mutation string
		ops      []OpSpec
		want     string
	}{
		"a paused job has a reservation": {"unjudged",
			[]OpSpec{"run run_for=600 locks=node/a", "run run_for=1 locks=node/a,node/b reason=second priority=-10", "run run_for=300 locks=node/b"}, "job 3 could run"},
		"an urgent job loses its locks": {"equal-priorities",
			[]OpSpec{"run run_for=30 locks=node/a", "run run_for=1 locks=node/a", "run run_for=1 locks=node/a priority=-10"}, "job 2 was chosen before job 3, which is more urgent"},
		"locks of a job that has ended": {"unheard-ends",
			[]OpSpec{"run run_for=10 locks=node/a", "run run_for=1 locks=node/a"}, "could run"},
	} {
		t.Run(name, func(t *testing.T) {
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			run := func(seed uint64, m Mutations) error {
				w := New(Options{Seed: seed, Slots: 4, Starts: 3, Checkers: []Checker{&checkExpected{}}, Mutations: m})
				w.startAgain()
				worker, operator := w.newClient(), w.newClient()
				worker.whenReady(func() {
					operator.replaceFilter(pausesSecond(), func(string, error) {
						worker.submitLater(worker.fill, c.ops...)
					})
				})
				w.RunFor(5 * time.Minute)
				return w.Err()
			}
			for seed := range uint64(5) {
				require.NoError(t, run(seed, Mutations{}))
				require.ErrorContains(t, run(seed, mutations), c.want)
			}
		})
	}
}

// forgetsReservations makes the scheduler forget that jobs may reserve, from the time at which *forgotten is set.
func forgetsReservations(forgotten *bool) func(string, any) any {
	return func(to string, m any) any {
		p, is := m.(*clusterconfig.ConfigPublished)
		if !is || !*forgotten || !strings.HasSuffix(to, "/scheduler") {
			return m
		}
		settings, err := config.EditSettings(p.Settings, map[string][]byte{"reserve_after": []byte("30000000")})
		if err != nil {
			return m
		}
		return &clusterconfig.ConfigPublished{Request: p.Request, Config: p.Config, Settings: settings}
	}
}

// The reservation of an old job survives a crash of the daemon and a change of the master. The checker finds a scheduler
// that forgets it.
func TestAReservationSurvivesItsDaemon(t *testing.T) {
	run := func(t *testing.T, seed uint64, nodes int, forgets bool) error {
		after := false
		m := Mutations{}
		if forgets {
			m.Alter = forgetsReservations(&after)
		}
		w := New(Options{Seed: seed, Nodes: nodes, Slots: 8, Starts: 3, Checkers: []Checker{&checkExpected{}}, Mutations: m})
		w.restartAfter = restartDelay
		for _, n := range w.nodes {
			n.startAgain()
		}
		c := w.newClient()
		var shared func()
		shared = func() {
			c.submit([][]OpSpec{{"run run_for=20 locks=node/a:shared"}}, nil)
			c.later(5*time.Second, shared)
		}
		configured := false
		var set func(error)
		set = func(err error) {
			if err != nil {
				c.later(time.Second, func() { c.set(map[string]any{"reserve_after": 5}, set) })
				return
			}
			configured = true
			shared()
			c.later(6*time.Second, func() { c.submit([][]OpSpec{{"run run_for=1 locks=node/a"}}, nil) })
		}
		set(errHungUp)
		w.until(t, "the work begins", func() bool { return configured })
		w.RunFor(13 * time.Second)
		if n := w.master(); n != nil {
			after = true
			n.Crash()
			if nodes == 1 {
				n.startAgain()
			}
		}
		w.RunFor(5 * time.Minute)
		return w.Err()
	}
	for _, nodes := range []int{1, 3} {
		for seed := range uint64(3) {
			require.NoError(t, run(t, seed, nodes, false), "%d nodes", nodes)
			require.ErrorContains(t, run(t, seed, nodes, true), "which has been the oldest", "%d nodes", nodes)
		}
	}
}

// A job that has waited in its slot since its promise is not passed by a second opcode of a job that was chosen later. Scheduler and lock
// manager both see to that, so the checker is shown a choice that neither makes.
func TestASecondOpcodeThatOvertakesIsSeen(t *testing.T) {
	w := New(Options{})
	w.effective.known = true
	begin, wanted := w.clock.Now(), [][2]string{{"node/a", "exclusive"}}
	waits := &lockingJob{id: 1, ops: [][][2]string{wanted}, fixed: true, claims: true, blocked: true, chosen: begin}
	passes := &lockingJob{id: 2, ops: [][][2]string{nil, wanted}, fixed: true, claims: true, op: 1, chosen: begin.Add(time.Second)}
	c := &checkExpected{active: map[int64]*lockingJob{1: waits, 2: passes}}
	bound := c.patience(begin) + w.effective.settings.LockBypass()
	w.clock.AdvanceTo(begin.Add(bound))
	require.NoError(t, c.overtaken(w, passes))
	w.clock.AdvanceTo(begin.Add(bound + time.Second))
	require.ErrorContains(t, c.overtaken(w, passes), "job 2 has its locks before job 1")
	waits.priority = 1
	require.NoError(t, c.overtaken(w, passes), "a more urgent one may")
}
