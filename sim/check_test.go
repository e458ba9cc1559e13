package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/lock"
	"lockstep/sim/longtest"
)

// Each checker finds the mutation that it guards against, in random work and within the
// given number of seeds.
func TestCheckersBite(t *testing.T) {
	longtest.Skip(t)
	bites := map[string]bool{}
	for _, c := range configBites {
		bites[c.checker().Name()] = true
	}
	bites[(&checkLogins{}).Name()] = true    // TestLoginCheckerBites
	bites[(&checkAudited{}).Name()] = true   // TestAuditCheckerBites
	bites[(&checkFound{}).Name()] = true     // TestReadersFindEveryJob
	bites[(&checkEdited{}).Name()] = true    // TestEveryStepOfDamagedSettings
	bites[(&checkVanished{}).Name()] = true  // TestProcessesEndWithoutAQueueAtEveryStep
	bites[checkConnections{}.Name()] = true  // TestACrowdStandsInNobodysWay
	bites[(&checkPrograms{}).Name()] = true  // TestProgramsCompeteForLocks
	bites[(&checkForgotten{}).Name()] = true // TestRemovedJobsAreForgotten
	bites[checkRunDirs{}.Name()] = true      // TestAnOperatorChangesWhatLiesAround
	bites[(&checkWithheld{}).Name()] = true  // TestGanetisProcessesWait
	bites[(&checkFollowed{}).Name()] = true  // TestFollowersGetEverything
	bites[(&checkProgress{}).Name()] = true  // TestShownProgressWasSaid
	bites[(&checkRoles{}).Name()] = true     // TestUsersDoWhatTheyMay
	bites[(&checkSubmitters{}).Name()] = true
	for _, c := range []Checker{&checkTries{}, &checkTryRecords{}, &checkNoTryAfterCancel{}, &checkTriesUsed{}, &checkBetweenTries{}} {
		bites[c.Name()] = true // TestTryCheckersBite
	}
	bites[(&checkStartTimes{}).Name()] = true // TestTimeCheckersBite
	bites[(&checkFirings{}).Name()] = true    // TestScheduleCheckersBite
	bites[checkNoted{}.Name()] = true
	bites[(&checkHistories{}).Name()] = true
	for name, c := range map[string]struct {
		checker  func() Checker
		mutation string
		faults   FaultRates
		within   uint64
	}{
		"acknowledged: a directory sync that does nothing": {
			checker:  func() Checker { return &checkAcknowledged{} },
			mutation: "lying-sync", within: 1,
		},
		"acknowledged: the serial is not written": {
			checker:  func() Checker { return &checkAcknowledged{} },
			mutation: "lost-serial", within: 1,
		},
		"once: nothing of a job's start is written, and the daemon crashes": {
			checker:  func() Checker { return &checkOnce{} },
			mutation: "started-twice", faults: FaultRates{Crash: 200}, within: 20,
		},
		"once: a process says too long that it has not begun": {
			checker:  func() Checker { return &checkOnce{} },
			mutation: "late-mark", faults: FaultRates{Crash: 200, Process: 100}, within: 200,
		},
		"begun: no mark is read": {
			checker:  func() Checker { return &checkBegun{} },
			mutation: "no-marks", faults: FaultRates{Crash: 200}, within: 60,
		},
		"once: a mark is believed after a boot": {
			checker:  func() Checker { return &checkOnce{} },
			mutation: "stale-mark", faults: FaultRates{Reboot: 300}, within: 200,
		},
		"once: a missing lock file is taken for a proof": {
			checker:  func() Checker { return &checkOnce{} },
			mutation: "missing-mark", faults: FaultRates{Reboot: 300}, within: 200,
		},
		"once: a submission that is sent again makes its jobs again": {
			checker:  func() Checker { return &checkOnce{} },
			mutation: "nameless", faults: FaultRates{Drop: 5}, within: 20,
		},
		"ends: a process of a former daemon is taken for dead": {
			checker:  func() Checker { return &checkEnds{} },
			mutation: "blind-adoption", faults: FaultRates{Crash: 200}, within: 20,
		},
		"forward: writes of a job change places": {
			checker:  func() Checker { return &checkForward{} },
			mutation: "late-writes", within: 5,
		},
		"told: the last write of a job is not synced, and power is lost": {
			checker:  func() Checker { return &checkReported{} },
			mutation: "unsynced-ends", faults: FaultRates{Reboot: 300}, within: 200,
		},
		"told: what was refused is not taken back": {
			checker:  func() Checker { return &checkReported{} },
			mutation: "kept-files", faults: FaultRates{Disk: 40}, within: 50,
		},
		"slots: the daemon counts more than there are": {
			checker:  func() Checker { return &checkSlots{} },
			mutation: "more-slots", within: 20,
		},
		"parse: data is renamed before it is synced, and power is lost": {
			checker:  func() Checker { return &checkParse{} },
			mutation: "late-data-sync", faults: FaultRates{Reboot: 300}, within: 20,
		},
		"ids: the serial is not written, and the daemon crashes": {
			checker:  func() Checker { return &checkIDs{} },
			mutation: "lost-serial", faults: FaultRates{Crash: 300}, within: 20,
		},
		"locks: those of a process are free when it dies, what it has left or not": {
			checker:  func() Checker { return checkLocks{} },
			mutation: "early-release", faults: FaultRates{Process: 20}, within: 150,
		},
		"locks: a forced end leaves what has left the command's group": {
			checker:  func() Checker { return checkLocks{} },
			mutation: "survivors", within: 50,
		},
		"owners: as above": {
			checker:  func() Checker { return &checkOwners{} },
			mutation: "early-release", faults: FaultRates{Process: 12}, within: 150,
		},
		"owners: the lock manager hears of no death": {
			checker:  func() Checker { return &checkOwners{} },
			mutation: "no-deaths",
			faults:   FaultRates{Process: 20}, within: 20,
		},
		"table: what is given back stays": {
			checker:  func() Checker { return &checkTable{} },
			mutation: "unwritten-release", within: 20,
		},
		"replay: an append is cut short": {
			checker:  func() Checker { return checkReplay{} },
			mutation: "torn-appends", within: 5,
		},
		"dependencies: every end is told as a success": {
			checker:  func() Checker { return &checkDepends{} },
			mutation: "all-succeed", within: 20,
		},
		"records: the ends of archived jobs are not recorded": {
			checker:  func() Checker { return &checkRecords{} },
			mutation: "unrecorded-ends", within: 20,
		},
		"filters: the scheduler hears of no change": {
			checker:  func() Checker { return &checkFilters{} },
			mutation: "no-verdicts", within: 50,
		},
		"filters: rejected jobs go on": {
			checker:  func() Checker { return &checkFilters{} },
			mutation: "rejected-go-on", within: 50,
		},
		"filters: newcomers are not judged": {
			checker:  func() Checker { return &checkFilters{} },
			mutation: "unjudged", within: 50,
		},
		"rules with an end: a fold loses them": {
			checker:  func() Checker { return &checkOwnRules{} },
			mutation: "lost-own-rules", within: 100,
		},
		"limits: a rule's number is greater": {
			checker:  func() Checker { return &checkLimits{} },
			mutation: "greater-limits", within: 50,
		},
		"limits: the scheduler does not see those of reason trails": {
			checker:  func() Checker { return &checkLimits{} },
			mutation: "no-reason-limits", within: 50,
		},
		"order: jobs do not age, and come in the predictive order": {
			checker:  func() Checker { return &checkStartOrder{} },
			mutation: "no-ageing", within: 100,
		},
		"expected order: the scheduler does not learn of ends": {
			checker:  func() Checker { return &checkExpected{} },
			mutation: "unheard-ends", within: 400,
		},
		"rest: a process that asks for permission reports nothing": {
			checker:  func() Checker { return checkRest{} },
			mutation: "held-reports", within: 200,
		},
		"rest: the queue does not hear how far a process has come": {
			checker:  func() Checker { return checkRest{} },
			mutation: "unheard-progress", within: 5,
		},
		"wishes: one that comes when the job has ended is not answered": {
			checker:  func() Checker { return &checkClientOrders{} },
			mutation: "lost-wishes", within: 20,
		},
		"marks: there is room for every job": {
			checker:  func() Checker { return newCheckMarks() },
			mutation: "marked-all", within: 20,
		},
		"marks: one outlives a pause": {
			checker:  func() Checker { return newCheckMarks() },
			mutation: "lasting-marks", within: 100,
		},
		"starts: a job is failed by the first one that comes to nothing": {
			checker:  func() Checker { return &checkStarts{} },
			mutation: "burnt-starts", faults: FaultRates{Starve: 500}, within: 20,
		},
		"holds: they are not written": {
			checker:  func() Checker { return &checkHolds{} },
			mutation: "lost-holds", within: 20,
		},
		"holds: the scheduler hears of none": {
			checker:  func() Checker { return &checkHolds{} },
			mutation: "unheard-holds", within: 100,
		},
		"retention: a job goes before its time": {
			checker:  func() Checker { return &checkRetention{} },
			mutation: "hasty-retention", within: 200,
		},
		"retention: the last job of a name goes": {
			checker:  func() Checker { return &checkRetention{} },
			mutation: "kept-none", within: 100,
		},
		"names: the author of a cancel is not written": {
			checker:  func() Checker { return &checkNames{} },
			mutation: "lost-authors", within: 20,
		},
		"names: they are not written": {
			checker:  func() Checker { return &checkNames{} },
			mutation: "lost-names", within: 1,
		},
		"output: the end of a process that died does not say that output is missing": {
			checker:  func() Checker { return &checkOutput{} },
			mutation: "unsaid-cuts", faults: FaultRates{Process: 20}, within: 20,
		},
		"live: nobody is told of the end of a process": {
			checker:  func() Checker { return checkLive{} },
			mutation: "silent-ends", within: 5,
		},
	} {
		bites[c.checker().Name()] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := range c.within {
				w := New(Options{Seed: seed, FaultRates: c.faults, Checkers: []Checker{c.checker()}, Mutations: mutations})
				w.runWork(newWorkload(w, 3, 15, nil), 5000)
				if w.Err() != nil {
					t.Logf("seed %d: %v", seed, w.Err())
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
	for _, c := range allCheckers() {
		require.True(t, bites[c.Name()], "nothing shows that the checker bites: %s", c.Name())
	}
}

// An owner that holds a lock may request only locks that follow it in the lock order. The
// checker finds a violation.
func TestTheOrderOfLocksIsSeen(t *testing.T) {
	items := func(names ...string) (all []lock.Item) {
		for _, name := range names {
			l, err := lock.ParseLock(name)
			require.NoError(t, err)
			all = append(all, lock.Item{Lock: l, Mode: lock.Exclusive})
		}
		return all
	}
	w := New(Options{})
	c := &checkTable{owners: map[lock.Owner]*tableOwner{}}
	owner := lock.JobOwner(1, "/livelock", 2)
	require.NoError(t, c.change(w, lock.Record{Owner: owner, Locks: items("node/b")}))
	require.NoError(t, c.change(w, lock.Record{Owner: owner, Locks: items("node/b", "node-res/a")}))
	require.ErrorContains(t, c.change(w, lock.Record{Owner: owner, Locks: items("instance/i", "node/b", "node-res/a")}), "comes later")
}

// contended submits a first job that holds node/a. After one second it submits the second
// job, after another second it calls after, and after another second it submits the third
// job.
func contended(seed uint64, checker Checker, mutations Mutations, after func(*client), second, third string) error {
	w := New(Options{Seed: seed, Slots: 4, Starts: 3, Checkers: []Checker{checker}, Mutations: mutations})
	w.restartAfter = restartDelay
	w.startAgain()
	c, o := w.newClient(), w.newClient()
	c.whenReady(func() {
		o.set(map[string]any{"lock_bypass_after": 0.1, "order": "plain"}, func(error) {
			c.submit([][]OpSpec{{"run run_for=10 locks=node/a:shared"}}, nil)
			c.later(time.Second, func() { c.submit([][]OpSpec{{OpSpec(second)}}, nil) })
			c.later(2*time.Second, func() { after(o) })
			c.later(3*time.Second, func() { c.submit([][]OpSpec{{OpSpec(third)}}, nil) })
		})
	})
	w.RunFor(time.Minute)
	return w.Err()
}

// A process of a command that has left its session, dropped its environment or, on a machine with control groups, both, is ended before
// the next job gets its locks, whether a forced end or a crash has ended the job.
func TestWhatHidesIsEnded(t *testing.T) {
	killedTogether := func(w *World, _ *client) {
		w.Crash()
		w.machine.processes[0].kill("SIGKILL")
		w.startAgain()
	}
	canceled := func(_ *World, c *client) { c.cancel(1, true, func() {}) }
	for name, c := range map[string]struct {
		mutation string
		hides    hiding
		end      func(*World, *client)
	}{
		"a forced end, in another session":                {"survivors", hidesSession, canceled},
		"a forced end, without its environment":           {"survivors", hidesEnvironment, canceled},
		"killed with the daemon, without its environment": {"marker-only", hidesEnvironment, killedTogether},
		"killed with the daemon, in another session":      {"", hidesSession, killedTogether},
		"a forced end, both":                              {"survivors", hidesBoth, canceled},
		"killed with the daemon, both":                    {"forgotten-group", hidesBoth, killedTogether},
	} {
		t.Run(name, func(t *testing.T) {
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			run := func(seed uint64, mutations Mutations) error {
				w := New(Options{Seed: seed, Slots: 4, Starts: 3, Groups: c.hides == hidesBoth,
					Checkers: []Checker{checkLocks{}}, Mutations: mutations})
				w.restartAfter = restartDelay
				w.startAgain()
				worker := w.newClient()
				worker.whenReady(func() {
					worker.submit([][]OpSpec{{OpSpec("run run_for=30 locks=node/a hides=" + string(c.hides))}}, nil)
					worker.later(time.Second, func() { worker.submit([][]OpSpec{{"run run_for=1 locks=node/a"}}, nil) })
				})
				w.RunFor(2 * time.Second)
				c.end(w, w.newClient())
				w.RunFor(time.Minute)
				return w.Err()
			}
			for seed := range uint64(5) {
				require.NoError(t, run(seed, Mutations{}))
				if c.mutation != "" {
					require.ErrorContains(t, run(seed, mutations), "both work with node/a")
				}
			}
		})
	}
}

// A running job keeps its free lock over a crash of the daemon.
func TestFreeLocksSurviveACrash(t *testing.T) {
	mutations, err := findMutation("unwritten-free-locks")
	require.NoError(t, err)
	run := func(seed uint64, mutations Mutations) error {
		w := New(Options{Seed: seed, Slots: 4, Starts: 3, Checkers: []Checker{checkLocks{}, checkReplay{}}, Mutations: mutations})
		w.restartAfter = restartDelay
		w.startAgain()
		worker := w.newClient()
		worker.whenReady(func() {
			worker.set(map[string]any{"order": "plain"}, func(error) { // it starts jobs that wait for locks
				worker.submit([][]OpSpec{{"run run_for=30 locks=free"}}, nil)
				worker.later(time.Second, func() { worker.submit([][]OpSpec{{"run run_for=1 locks=free"}}, nil) })
			})
		})
		w.RunFor(3 * time.Second)
		w.Crash()
		w.startAgain()
		w.RunFor(time.Minute)
		return w.Err()
	}
	for seed := range uint64(5) {
		require.NoError(t, run(seed, Mutations{}))
		require.ErrorContains(t, run(seed, mutations), "both work with lock/free")
	}
}

// Some mutations have an effect only when jobs contend for a lock. Their work is
// constructed, not random, and the plain order starts jobs that wait for locks.
func TestCheckersBiteWhereJobsMeet(t *testing.T) {
	nothing := func(*client) {}
	pause := func(o *client) {
		o.replaceFilter(rule{uuid: "00000001-0000-4000-8000-000000000001", predicates: []byte(`[]`), action: "PAUSE"}, func(string, error) {})
	}
	for name, c := range map[string]struct {
		checker  func() Checker
		mutation string
		after    func(*client)
		third    string
	}{
		"table: late requests overtake those that have waited for long": {
			func() Checker { return &checkTable{} }, "no-lock-bound", nothing, "run run_for=1 locks=node/a:shared"},
		"filters: the lock manager is not told of who is paused": {
			func() Checker { return &checkFilters{} }, "paused-get-locks", pause, "run run_for=1"},
	} {
		t.Run(name, func(t *testing.T) {
			mutations, err := findMutation(c.mutation)
			require.NoError(t, err)
			for seed := range uint64(5) {
				require.NoError(t, contended(seed, c.checker(), Mutations{}, c.after, "run run_for=1 locks=node/a", c.third))
				require.Error(t, contended(seed, c.checker(), mutations, c.after, "run run_for=1 locks=node/a", c.third))
			}
		})
	}
}
