package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/sim/consensus"
	"lockstep/sim/longtest"
)

// Each checker of a cluster finds the mutation that it guards against.
func TestClusterCheckersBite(t *testing.T) {
	longtest.Skip(t)
	bites := map[string]bool{}
	for name, c := range map[string]struct {
		checker  func() Checker
		mutation string
		faults   FaultRates
		cluster  ClusterFaultRates
		from     uint64
		within   uint64
	}{
		"acknowledged: before a majority has it": {
			checker:  func() Checker { return &checkAcknowledged{} },
			mutation: "hasty-log", within: 5,
		},
		"final: told before a majority has it": {
			checker:  func() Checker { return &checkFinal{} },
			mutation: "hasty-log", cluster: ClusterFaultRates{Partition: 300}, within: 50,
		},
		"replicas: a node leaves an entry out": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "skipped-entry", within: 5,
		},
		"replicas: a node forgets which jobs run": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "forgotten-jobs", faults: FaultRates{Crash: 300}, from: 40, within: 50,
		},
		"replicas: an undone start has no number": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "unnumbered-starts", faults: FaultRates{Crash: 300, Process: 100}, within: 20,
		},
		"replicas: a node that has lost its queue is let in": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "lets-in", cluster: ClusterFaultRates{LoseQueue: 300}, from: 1, within: 20,
		},
		"replicas: a node with an older queue is let in": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "lets-in", cluster: ClusterFaultRates{OlderQueue: 150}, within: 50,
		},
		"replicas: a node loses records of the configuration": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "lost-records", within: 20,
		},
		"replicas: a snapshot lacks the number of the configuration": {
			checker:  func() Checker { return checkReplicas{} },
			mutation: "unnumbered-snapshots", cluster: ClusterFaultRates{Wipe: 300}, within: 50,
		},
		"locks: a new master does not wait for the jobs of the old one": {
			checker:  func() Checker { return &checkLocks{} },
			mutation: "no-fence", cluster: ClusterFaultRates{Transfer: 200}, from: 0, within: 60,
		},
		"fence: a new master does not wait for the jobs of the old one": {
			checker:  func() Checker { return &checkFence{} },
			mutation: "no-fence", cluster: ClusterFaultRates{Transfer: 200}, from: 0, within: 20,
		},
		"slots: the master counts more than there are": {
			checker:  func() Checker { return &checkSlots{} },
			mutation: "more-slots", within: 20,
		},
		"settled: entries are noted as durable whose files were never synced": {
			checker:  func() Checker { return checkSettled{} },
			faults:   FaultRates{Stop: 300},
			mutation: "unsynced-entries", within: 20,
		},
		"settled: an orderly stop does not sync the files": {
			checker:  func() Checker { return checkSettled{} },
			faults:   FaultRates{Stop: 300},
			mutation: "unsynced-leave", within: 20,
		},
		"records: the ends of archived jobs are not recorded": {
			checker:  func() Checker { return &checkRecords{} },
			mutation: "unrecorded-ends", within: 20,
		},
		"filters: the scheduler of the master hears of no change of the rules": {
			checker:  func() Checker { return &checkFilters{} },
			mutation: "no-verdicts", within: 50,
		},
		"limits: those in reason trails are not seen": {
			checker:  func() Checker { return &checkLimits{} },
			mutation: "no-reason-limits", within: 50,
		},
		"order: nobody gets older": {
			checker:  func() Checker { return &checkStartOrder{} },
			mutation: "no-ageing", from: 520, within: 60,
		},
		"table: appends to the journal of the locks are torn": {
			checker:  func() Checker { return &checkTable{} },
			mutation: "torn-appends", within: 5,
		},
		"replay: the same, and a node becomes the master again": {
			checker:  func() Checker { return checkReplay{} },
			mutation: "torn-appends", within: 5,
		},
		"owners: it is not written when locks are given back": {
			checker:  func() Checker { return &checkOwners{} },
			mutation: "unwritten-release", within: 20,
		},
		"rest: the other nodes hear only of ends and of opcodes that are to begin": {
			checker:  func() Checker { return checkRest{} },
			mutation: "untold-progress", within: 20,
		},
		"queries: a node learns of no change of the configuration": {
			checker:  func() Checker { return &checkConfd{} },
			mutation: "stale-confd", within: 20,
		},
		"live: nobody is told to be the master": {
			checker:  func() Checker { return checkLive{} },
			mutation: "no-master", within: 1,
		},
	} {
		bites[c.checker().Name()] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := c.from; seed < c.from+c.within; seed++ {
				w := New(Options{Seed: seed, Nodes: 3, FaultRates: c.faults, Checkers: []Checker{c.checker()}, Mutations: mutations})
				w.injector.clusterRates = c.cluster
				w.runWork(newWorkload(w, 3, 15, nil), 5000)
				if w.Err() != nil {
					t.Logf("seed %d: %v", seed, w.Err())
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
	bites[checkMasters{}.Name()] = true // TestAStaleMasterIsSeen
	for _, c := range allCheckers() {
		bites[c.Name()] = true // TestCheckersBite
	}
	for _, c := range clusterCheckers() {
		require.True(t, bites[c.Name()], "nothing shows that the checker bites: %s", c.Name())
	}
}

// stopsMaster makes two jobs wait for the same lock, one after the other. It suspends the daemon of the master when a
// line of the trace contains the text. The daemon continues when another node is master.
func stopsMaster(seed uint64, checker Checker, mutations Mutations, when string) *World {
	seen := false
	w := New(Options{Seed: seed, Nodes: 3, Checkers: []Checker{checker}, Mutations: mutations, Sink: func(l Line) {
		seen = seen || strings.Contains(l.Text(), when)
	}})
	w.restartAfter = restartDelay
	for _, n := range w.nodes {
		n.startAgain()
	}
	w.newClient().submit([][]OpSpec{{"run run_for=30 locks=node/a"}}, nil)
	other := w.newClient()
	other.later(5*time.Second, func() { other.submit([][]OpSpec{{"run run_for=1 locks=node/a"}}, nil) })
	for !seen && w.stepCount < 20_000 && w.Step() {
	}
	if n := w.master(); n != nil {
		n.pause(10 * time.Second)
	}
	w.RunFor(time.Minute)
	return w
}

// The checkers find the actions of a former master.
func TestAStaleMasterIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		checker   func() Checker
		mutations Mutations
		when      string
	}{
		"its process goes on": {func() Checker { return &checkLocks{} }, Mutations{NoLease: true}, "process executes"},
		"it permits a process to act": {func() Checker { return checkMasters{} },
			Mutations{NoLease: true, Log: consensus.Mutations{AlwaysLeads: true}}, "job 1: queued, has a process (apply)"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(30) {
				require.NoError(t, stopsMaster(seed, c.checker(), Mutations{}, c.when).Err())
				if err := stopsMaster(seed, c.checker(), c.mutations, c.when).Err(); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			require.Fail(t, "it has not bitten")
		})
	}
}

// A command whose job process is killed together with the daemon of the master is ended by the guard before the next master starts a job
// with the same locks, also if that daemon does not come back.
func TestTheGuardEndsWhatAFormerMasterHasLeft(t *testing.T) {
	mutations, err := findMutation("idle-guard")
	require.NoError(t, err)
	run := func(seed uint64, mutations Mutations) error {
		executes := false
		sink := func(l Line) { executes = executes || strings.Contains(l.Text(), "process executes") }
		w := New(Options{Seed: seed, Nodes: 3, Groups: true, Guard: true,
			Checkers: []Checker{checkLocks{}}, Mutations: mutations, Sink: sink})
		w.restartAfter = restartDelay
		for _, n := range w.nodes {
			n.startAgain()
		}
		first := w.newClient()
		first.later(3*time.Second, func() { first.submit([][]OpSpec{{"run run_for=50 locks=node/a hides=both"}}, nil) })
		for !executes && w.stepCount < 20_000 && w.Step() {
		}
		require.True(t, executes, "seed %d", seed)
		w.RunFor(time.Second)
		w.restartAfter = 0
		master := w.master()
		master.Crash()
		master.machine.processes[0].kill("SIGKILL")
		for range w.nodes { // one of them finds the next master
			other := w.newClient()
			other.later(6*time.Second, func() { other.submit([][]OpSpec{{"run run_for=1 locks=node/a"}}, nil) })
		}
		w.RunFor(time.Minute)
		return w.Err()
	}
	for seed := range uint64(5) {
		require.NoError(t, run(seed, Mutations{}))
		require.ErrorContains(t, run(seed, mutations), "both work with node/a")
	}
}
