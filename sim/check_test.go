package sim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

// Each checker is shown the fault that it guards against, alone, in random work:
// it must bite within so many seeds.
func TestCheckersBite(t *testing.T) {
	for name, c := range map[string]struct {
		checker func() Checker
		plants  Plants
		faults  Faults
		within  uint64
	}{
		"acknowledged: a directory sync that does nothing": {
			checker: func() Checker { return &checkAcknowledged{} },
			plants:  Plants{Disk: DiskPlants{LyingSync: true}}, within: 1,
		},
		"acknowledged: the serial is not written": {
			checker: func() Checker { return &checkAcknowledged{} },
			plants:  Plants{Disk: DiskPlants{Loses: "serial"}}, within: 1,
		},
		"once: nothing of a job's start is written, and the daemon crashes": {
			checker: func() Checker { return &checkOnce{} },
			plants:  Plants{Disk: DiskPlants{Loses: "start-job,run-job"}, Trusting: true}, faults: Faults{Crash: 200}, within: 20,
		},
		"ends: a process of a former daemon is taken for dead": {
			checker: func() Checker { return &checkEnds{} },
			plants:  Plants{BlindAdoption: true}, faults: Faults{Crash: 200}, within: 20,
		},
		"forward: writes of a job change places": {
			checker: func() Checker { return &checkForward{} },
			plants:  Plants{Disk: DiskPlants{LateWrites: true}}, within: 5,
		},
		"told: the last write of a job is not synced, and power is lost": {
			checker: func() Checker { return &checkTold{} },
			plants:  Plants{UnsyncedEnds: true}, faults: Faults{Reboot: 300}, within: 50,
		},
		"told: what was refused is not taken back": {
			checker: func() Checker { return &checkTold{} },
			plants:  Plants{Disk: DiskPlants{KeepsRemoved: true}}, faults: Faults{Disk: 40}, within: 50,
		},
		"slots: the daemon counts more than there are": {
			checker: func() Checker { return &checkSlots{} },
			plants:  Plants{MoreSlots: 1}, within: 20,
		},
		"parse: data is renamed before it is synced, and power is lost": {
			checker: func() Checker { return &checkParse{} },
			plants:  Plants{Disk: DiskPlants{SkipDataSync: true}}, faults: Faults{Reboot: 300}, within: 20,
		},
		"ids: the serial is not written, and the daemon crashes": {
			checker: func() Checker { return &checkIDs{} },
			plants:  Plants{Disk: DiskPlants{Loses: "serial"}}, faults: Faults{Crash: 300}, within: 20,
		},
		"locks: those of a process are free when it dies, what it has left or not": {
			checker: func() Checker { return checkLocks{} },
			plants:  Plants{Alter: freesTooSoon}, faults: Faults{Process: 20}, within: 50,
		},
		"owners: as above": {
			checker: func() Checker { return &checkOwners{} },
			plants:  Plants{Alter: freesTooSoon}, faults: Faults{Process: 20}, within: 50,
		},
		"owners: the lock manager hears of no death": {
			checker: func() Checker { return &checkOwners{} },
			plants:  Plants{Alter: drops("daemon/core/locks", &messages.OwnerDead{}, &messages.OwnersDead{}, &messages.JobOver{})},
			faults:  Faults{Process: 20}, within: 20,
		},
		"replay: an append is cut short": {
			checker: func() Checker { return checkReplay{} },
			plants:  Plants{Disk: DiskPlants{TornAppends: true}}, within: 5,
		},
		"dependencies: every end is told as a success": {
			checker: func() Checker { return &checkDepends{} },
			plants:  Plants{Alter: allSucceed}, within: 20,
		},
		"filters: the scheduler hears of no change": {
			checker: func() Checker { return &checkFilters{} },
			plants:  Plants{Alter: drops("daemon/core/scheduler", &messages.VerdictsChanged{})}, within: 50,
		},
		"filters: newcomers are not judged": {
			checker: func() Checker { return &checkFilters{} },
			plants:  Plants{Alter: judgesNobody}, within: 50,
		},
		"filters: the lock manager is not told of who is paused": {
			checker: func() Checker { return &checkFilters{} },
			plants:  Plants{Alter: drops("daemon/core/locks", &messages.WithholdLocks{})}, within: 300,
		},
		"limits: a rule's number is greater": {
			checker: func() Checker { return &checkLimits{} },
			plants:  Plants{Alter: allowsMore}, within: 50,
		},
		"limits: the scheduler does not see those of reason trails": {
			checker: func() Checker { return &checkLimits{} },
			plants:  Plants{Alter: seesNoLimits}, within: 50,
		},
		"order: jobs do not age, and come in the predictive order": {
			checker: func() Checker { return &checkOrder{} },
			plants:  Plants{Alter: neverAges}, within: 100,
		},
		"live: nobody is told of the end of a process": {
			checker: func() Checker { return checkLive{} },
			plants:  Plants{SilentEnds: true}, within: 5,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range c.within {
				w := New(Options{Seed: seed, Faults: c.faults, Checkers: []Checker{c.checker()}, Plants: c.plants})
				w.runWork(newWorkload(w, 3, 15), 5000)
				if w.Err() != nil {
					t.Logf("seed %d: %v", seed, w.Err())
					return
				}
			}
			require.Fail(t, "it has not bitten", "within %d seeds", c.within)
		})
	}
}
