package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

var (
	noon   = time.Unix(1_700_000_000, 0)
	wconfd = lock.NamedOwner("wconfd", "/live/wconfd", 7)
	bgl    = lock.Item{Lock: lock.BGL, Mode: lock.Shared}
)

func node(name string, m lock.Mode) lock.Item {
	return lock.Item{Lock: lock.Member(lock.Node, name), Mode: m}
}

// wants is a declaration with a demand at one level.
func wants(level lock.Level, known lock.DemandKind, names ...string) (d lock.Declaration) {
	d.Demands[level-lock.Instance] = lock.Demand{Kind: known, Names: names}
	return d
}

// exclusively is a job just received that works on a node.
func exclusively(id job.ID, name string) Candidate {
	return Candidate{ID: id, ReceivedUs: noon.UnixMicro(), Declared: wants(lock.Node, lock.ExclusiveSet, name)}
}

func slots(n int) Settings {
	s := Defaults()
	s.Slots = n
	return s
}

func plain(n int) Settings {
	s := slots(n)
	s.Order = Plain
	return s
}

func explain(t *testing.T, s *State, id job.ID) Explanation {
	t.Helper()
	w, is := s.Explain(id, noon, 1000)
	require.True(t, is)
	return w
}

// static is the weight before ageing of a job that wants node n1 exclusively.
func static(t *testing.T, s *State) float64 {
	t.Helper()
	s.Enqueue(exclusively(1000, "n1"))
	defer s.Withdraw(1000)
	return explain(t, s, 1000).StaticWeight
}

func TestPlainOrder(t *testing.T) {
	s := NewState(plain(1))
	s.AddRunning(exclusively(9, "n1"))
	for id, priority := range map[job.ID]int{1: 10, 2: 0, 3: -10, 4: 0} {
		c := exclusively(id, "n1")
		c.Priority = priority
		s.Enqueue(c)
	}
	s.Remove(9)
	for _, id := range []job.ID{3, 2, 4, 1} {
		require.Equal(t, []job.ID{id}, s.Pick(noon))
		s.Remove(id)
	}
	require.Empty(t, s.Pick(noon))
}

func TestSlotsAreNeverOverfilledAndNeverIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "slots")
		s := NewState(slots(n))
		next := job.ID(1)
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				s.Enqueue(Candidate{ID: next, Priority: genPriority.Draw(t, "priority"), Declared: genDeclared.Draw(t, "declared")})
				next++
			},
			"end": func(t *rapid.T) {
				if running := s.RunningIDs(); len(running) > 0 {
					s.Remove(rapid.SampledFrom(running).Draw(t, "which"))
				}
			},
			"cancel": func(t *rapid.T) { s.Remove(job.ID(rapid.IntRange(1, int(next)).Draw(t, "which"))) },
			"": func(t *rapid.T) {
				s.Pick(noon)
				require.LessOrEqual(t, s.SlotsInUse(), n)
				require.True(t, s.Len() == 0 || s.SlotsInUse() == n, "a slot is free and a job waits")
			},
		})
	})
}

func TestAPickedJobDoesNotWaitAgain(t *testing.T) {
	s := NewState(slots(1))
	urgent := exclusively(2, "n2")
	urgent.Priority = -10
	s.Enqueue(exclusively(1, "n1"))
	s.Enqueue(urgent)
	require.Equal(t, []job.ID{2}, s.Pick(noon))
	s.Enqueue(urgent)
	s.Remove(2)
	require.Equal(t, []job.ID{1}, s.Pick(noon))
	require.Zero(t, s.Len())
}

func TestMoreMayRunThanThereAreSlots(t *testing.T) {
	s := NewState(slots(1))
	for id := range job.ID(3) {
		s.AddRunning(Candidate{ID: id})
	}
	s.Enqueue(exclusively(4, "n1"))
	s.Remove(0)
	s.Remove(1)
	require.Empty(t, s.Pick(noon))
	require.Equal(t, []job.ID{2}, s.RunningIDs())
	s.SetSettings(slots(2))
	require.Equal(t, []job.ID{4}, s.Pick(noon))
	require.Equal(t, 2, s.SlotsInUse())
	require.Equal(t, slots(2), s.Settings())
}

// Each pick is compared with those before it: two jobs for one node do not run together while another job can run.
func TestPicksAreComparedWithEachOther(t *testing.T) {
	s := NewState(slots(2))
	s.Enqueue(exclusively(1, "n1"))
	s.Enqueue(exclusively(2, "n1"))
	s.Enqueue(exclusively(3, "n2"))
	require.Equal(t, []job.ID{1, 3}, s.Pick(noon))
}

func TestAgeBeatsConflicts(t *testing.T) {
	for _, passed := range []time.Duration{0, 29 * 30 * time.Second, 30 * 30 * time.Second} {
		s := NewState(slots(2))
		s.AddRunning(exclusively(9, "n1"))
		s.Enqueue(exclusively(1, "n1"))
		fresh := exclusively(2, "n2")
		fresh.ReceivedUs += passed.Microseconds()
		s.Enqueue(fresh)
		// 4 against 1.5 if both are new, 4/30 against 1.5 a tick before age K.
		want := map[bool]job.ID{true: 1, false: 2}[passed > 0]
		require.Equal(t, []job.ID{want}, s.Pick(noon.Add(passed)))
	}
}

// The big lock gives the greatest weight, but only until the job is old.
func TestTheBigLockGoesLastUntilItIsOld(t *testing.T) {
	big := Candidate{ID: 1, ReceivedUs: noon.UnixMicro(), Declared: lock.Declaration{BGL: true}}
	for passed, want := range map[time.Duration][]job.ID{0: {2, 1}, 15 * time.Minute: {1, 2}} {
		s := NewState(slots(3))
		s.AddRunning(exclusively(9, "n1"))
		s.Enqueue(big)
		s.Enqueue(exclusively(2, "n1"))
		require.Equal(t, want, s.Pick(noon.Add(passed)))
	}
}

func TestWhoRunsWeighs(t *testing.T) {
	s := NewState(slots(5))
	require.Equal(t, 1.0, static(t, s), "nobody runs")
	// Instance and other levels: an owner that wants nothing at a level causes no contention there.
	s.AddRunning(exclusively(1, "n2"))
	require.Equal(t, 1.5, static(t, s), "another node")
	s.SetOwnerLocks(wconfd, []lock.Item{node("n1", lock.Shared)}, nil)
	require.Equal(t, 4.0, static(t, s), "an owner that is no job")
	s.SetOwnerLocks(wconfd, []lock.Item{{Lock: lock.ConfigLock, Mode: lock.Exclusive}}, nil)
	require.Equal(t, 1.5, static(t, s))
	s.SetOwnerLocks(wconfd, []lock.Item{bgl}, lock.Request{{Lock: lock.BGL, Mode: lock.Exclusive}})
	require.Equal(t, 16.0, static(t, s), "somebody waits for the big lock")
	s.SetOwnerLocks(wconfd, nil, nil)
	s.Remove(1)
	require.Equal(t, 1.0, static(t, s))
}

// Held and awaited locks count at the levels that the opcode has reached, its declaration at later levels. Later
// opcodes always count.
func TestTheRunningSideOfOneJob(t *testing.T) {
	s := NewState(slots(5))
	running := jobOwnerKey(1)
	s.AddRunning(exclusively(1, "n1"))
	require.Equal(t, 4.0, static(t, s), "declared")
	s.SetOwnerLocks(running, []lock.Item{bgl}, nil)
	require.Equal(t, 4.0, static(t, s), "nodes are ahead")
	s.SetOwnerLocks(running, []lock.Item{bgl}, lock.Request{node("n2", lock.Exclusive)})
	require.Equal(t, 1.5, static(t, s), "it was another node")
	s.SetOwnerLocks(running, []lock.Item{bgl}, nil)
	require.Equal(t, 1.5, static(t, s), "freed early: no more ahead")
	s.SetDeclared(1, wants(lock.Node, lock.SharedSet, "n1"), lock.Declaration{})
	require.Equal(t, 4.0, static(t, s), "ahead of the next opcode")
	s.SetOwnerLocks(running, []lock.Item{bgl, node("n2", lock.Exclusive)}, nil)
	require.Equal(t, 1.5, static(t, s), "another node again")
	s.SetOwnerLocks(running, nil, nil)
	require.Equal(t, 4.0, static(t, s), "an opcode has ended, nothing is known of the next")
	s.SetDeclared(1, lock.Declaration{}, wants(lock.Node, lock.SharedSet, "n1"))
	require.Equal(t, 4.0, static(t, s), "a later opcode")
	s.SetOwnerLocks(running, []lock.Item{bgl, {Lock: lock.Group(lock.Network), Mode: lock.Shared}}, nil)
	require.Equal(t, 4.0, static(t, s), "a later opcode, whatever this one has reached")
	s.SetDeclared(1, lock.Declaration{}, lock.Declaration{BGL: true})
	require.Equal(t, 16.0, static(t, s), "the big lock, later")
	s.SetDeclared(1, lock.Declaration{}, lock.Declaration{})
	require.Equal(t, 1.5, static(t, s))
}

// The lock manager may report the locks of a running job before the job itself is reported.
func TestLocksMayBeKnownBeforeTheirJob(t *testing.T) {
	s := NewState(slots(5))
	s.SetOwnerLocks(jobOwnerKey(1), []lock.Item{bgl, node("n2", lock.Exclusive)}, nil)
	s.AddRunning(exclusively(1, "n1"))
	require.Equal(t, 1.5, static(t, s))
}

// The levels that an opcode has reached do not count for the next opcode.
func TestAJobThatGoesOnReachesLevelsAnew(t *testing.T) {
	s := NewState(slots(5))
	s.AddRunning(Candidate{ID: 1})
	s.SetOwnerLocks(jobOwnerKey(1), []lock.Item{bgl, node("n2", lock.Exclusive)}, nil)
	s.SetOwnerLocks(jobOwnerKey(1), []lock.Item{bgl}, nil)
	s.Yield(1)
	require.True(t, s.Yielded(1))
	s.Enqueue(exclusively(1, "n1"))
	require.Equal(t, []job.ID{1}, s.Pick(noon))
	require.False(t, s.Yielded(1))
	require.Equal(t, 4.0, static(t, s))
}

func TestForgetOwners(t *testing.T) {
	s := NewState(slots(5))
	s.AddRunning(exclusively(1, "n1"))
	s.SetOwnerLocks(jobOwnerKey(1), []lock.Item{node("n2", lock.Exclusive)}, nil)
	s.SetOwnerLocks(wconfd, []lock.Item{{Lock: lock.BGL, Mode: lock.Exclusive}}, nil)
	require.Equal(t, 16.0, static(t, s))
	s.ForgetOwners()
	require.Equal(t, 4.0, static(t, s), "the job's declaration is left")
}

func TestAFullLimitIsPassedOver(t *testing.T) {
	s := NewState(plain(10))
	limited := func(id job.ID, limits ...Limit) Candidate {
		c := exclusively(id, "n1")
		c.Limits = limits
		return c
	}
	x, y := Limit{"x", 2}, Limit{"y", 1}
	s.AddRunning(limited(9, y))
	for id, limits := range [][]Limit{{x}, {x, y}, {x, x}, {x}, nil} {
		s.Enqueue(limited(job.ID(id), limits...))
	}
	require.Equal(t, []job.ID{0, 2, 4}, s.Pick(noon))
	require.Equal(t, []FullLimit{{x, 2}, {y, 1}}, explain(t, s, 1).FullLimits)
	s.Remove(0)
	require.Equal(t, []job.ID{3}, s.Pick(noon))
	// A limit that is exceeded stays so: no running job is stopped, and no new job starts.
	s.SetLimits(4, []Limit{x})
	s.Remove(2)
	require.Empty(t, s.Pick(noon))
	s.SetLimits(4, nil)
	require.Empty(t, s.Pick(noon), "y is still full")
	s.Remove(9)
	require.Equal(t, []job.ID{1}, s.Pick(noon))
}

// A yielded job does not count for its limits, which may block the job that it waits for. To continue it needs room in
// them again.
func TestAYieldedJobGivesItsLimitsBack(t *testing.T) {
	one := []Limit{{"x", 1}}
	limited := func(id job.ID) Candidate { return Candidate{ID: id, Limits: one} }
	s := NewState(plain(2))
	s.AddRunning(limited(1))
	s.Enqueue(limited(2))
	require.Empty(t, s.Pick(noon))
	s.Yield(1)
	require.Equal(t, []job.ID{2}, s.Pick(noon))
	s.Enqueue(limited(1))
	require.Equal(t, []FullLimit{{one[0], 1}}, explain(t, s, 1).FullLimits)
	require.Empty(t, s.Pick(noon))
	s.Remove(2)
	require.Equal(t, []job.ID{1}, s.Pick(noon))
	require.Empty(t, s.YieldedIDs())
}

// A yielded job that becomes a candidate may be withdrawn before it is picked.
func TestAYieldedJobIsWithdrawn(t *testing.T) {
	s := NewState(slots(1))
	s.Enqueue(exclusively(1, "n1"))
	require.Equal(t, []job.ID{1}, s.Pick(noon))
	s.Yield(1)
	s.Enqueue(exclusively(1, "n1"))
	s.Withdraw(1)
	require.Empty(t, s.Pick(noon))
	require.Equal(t, []job.ID{1}, s.YieldedIDs())
}

// A clock that was ahead for some time keeps neither later nor earlier jobs young.
func TestAClockThatWasSetBack(t *testing.T) {
	s := NewState(slots(1))
	ahead := exclusively(2, "n1")
	ahead.ReceivedUs = noon.AddDate(70, 0, 0).UnixMicro()
	s.Enqueue(exclusively(1, "n1"))
	s.Enqueue(ahead)
	require.Zero(t, explain(t, s, 2).AgeTicks)
	s.Enqueue(exclusively(3, "n1"))
	for id := job.ID(1); id <= 3; id++ {
		w, _ := s.Explain(id, noon.Add(5*time.Minute), 1000)
		require.EqualValues(t, 10, w.AgeTicks)
	}
}

func TestTicksAreCutDownwards(t *testing.T) {
	s := Defaults()
	require.EqualValues(t, 1, s.tickOf(30_000_000))
	require.EqualValues(t, 0, s.tickOf(29_999_999))
	require.EqualValues(t, -1, s.tickOf(-1))
	require.EqualValues(t, -1, s.tickOf(-30_000_000))
}

func TestTickRangesAreBounded(t *testing.T) {
	var b arrivalTicks
	for i := range 3 * rangesMax {
		b.record(job.ID(i), int64(i))
		require.LessOrEqual(t, len(b.ranges), rangesMax)
	}
}

func TestSettings(t *testing.T) {
	require.NoError(t, Defaults().Validate())
	for want, change := range map[string]func(*Settings){
		"slots: 0 is less than 1":           func(s *Settings) { s.Slots = 0 },
		"base: -1 is not in 0..1000000":     func(s *Settings) { s.Base = -1 },
		"tick: 0s is not in 1ms..8760h0m0s": func(s *Settings) { s.Tick = 0 },
		"K: 0 is not in 1..1000000":         func(s *Settings) { s.K = 0 },
	} {
		s := Defaults()
		change(&s)
		require.EqualError(t, s.Validate(), want)
		state := NewState(Defaults())
		require.Panics(t, func() { state.SetSettings(s) })
		require.Equal(t, Defaults(), state.Settings())
	}
}

// Different groups may have equal hashes.
func TestGroupsAreToldApartByWhatTheyAre(t *testing.T) {
	g := newGroups()
	d := wants(lock.Instance, lock.ExclusiveSet, "a", "b")
	set := g.limits.setOf([]Limit{{"x", 1}})
	at := g.findOrAdd(bucketKey{limits: set}, &d)
	key := bucketKey{limits: set}
	a, b, shape := g.scratch[0], g.scratch[1], g.items[at].shape
	for _, names := range [][]int32{{a}, {b, a}, {a, b, b}} {
		g.scratch = names
		require.False(t, g.matches(at, &key, shape))
	}
	g.scratch = []int32{a, b}
	require.True(t, g.matches(at, &key, shape))
	require.False(t, g.matches(at, &key, shape+1))
	for _, other := range []bucketKey{
		{limits: set, priority: 1}, {}, {limits: set, class: 1}, {limits: set, continues: true},
	} {
		require.False(t, g.matches(at, &other, shape))
	}
	require.True(t, g.matches(at, &key, shape))
}

// Groups that differ in instances only have one shape, and it goes with the last of them.
func TestAShapeIsSharedByGroups(t *testing.T) {
	s := NewState(slots(1))
	for id := job.ID(1); id <= 4; id++ {
		c := exclusively(id, []string{"n1", "n2"}[id%2])
		c.Declared.Demands[0] = lock.Demand{Kind: lock.ExclusiveSet, Names: []string{fmt.Sprint("i", id)}}
		s.Enqueue(c)
	}
	require.Equal(t, 4, s.groups.byHash.used)
	require.Equal(t, 2, s.groups.shapes.byHash.used)
	for id := job.ID(1); id <= 4; id++ {
		s.Withdraw(id)
	}
	require.Zero(t, s.groups.shapes.byHash.used)
	require.Zero(t, s.groups.names.byHash.used)
}
