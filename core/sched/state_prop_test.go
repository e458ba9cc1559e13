package sched

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

var testNames = []string{"a", "b", "c"}

var (
	genID       = rapid.Map(rapid.IntRange(1, 14), func(n int) job.ID { return job.ID(n) })
	genPriority = rapid.SampledFrom([]int{0, 0, 0, -10, 10})
	// Few levels and names give many conflicts.
	genLevel    = rapid.SampledFrom([]lock.Level{lock.Instance, lock.Node, lock.Node, lock.Node, lock.Network, lock.Free})
	genDeclared = rapid.Custom(func(t *rapid.T) lock.Declaration {
		d := lock.Declaration{BGL: rapid.IntRange(0, 15).Draw(t, "bgl") == 15}
		for range rapid.IntRange(0, 3).Draw(t, "levels") {
			*d.At(genLevel.Draw(t, "level")) = genWant.Draw(t, "want")
		}
		return d
	})
	genWant = rapid.Custom(func(t *rapid.T) lock.Demand {
		w := lock.Demand{Kind: lock.DemandKind(rapid.IntRange(0, demandKinds-1).Draw(t, "known"))}
		if hasNames(w.Kind) {
			w.Names = rapid.SliceOfNDistinct(rapid.SampledFrom(testNames), 1, 3, rapid.ID).Draw(t, "names")
			slices.Sort(w.Names)
		}
		return w
	})
	genLimits = rapid.Custom(func(t *rapid.T) []Limit {
		var limits []Limit
		for _, key := range []string{"x", "y"} {
			if n := rapid.IntRange(-2, 2).Draw(t, "n"); n > 0 {
				limits = append(limits, Limit{key, n})
			}
		}
		return limits
	})
	genItem = rapid.Custom(func(t *rapid.T) lock.Item {
		level := rapid.OneOf(genLevel, rapid.SampledFrom([]lock.Level{lock.Cluster, lock.Config})).Draw(t, "level")
		mode := rapid.SampledFrom([]lock.Mode{lock.Shared, lock.Shared, lock.Exclusive, lock.None}).Draw(t, "mode")
		switch {
		case level == lock.Cluster:
			if rapid.IntRange(0, 3).Draw(t, "rare") > 0 {
				mode = lock.Shared
			}
			return lock.Item{Lock: lock.BGL, Mode: mode}
		case level == lock.Config:
			return lock.Item{Lock: lock.ConfigLock, Mode: mode}
		case level != lock.Free && rapid.IntRange(0, 3).Draw(t, "group") == 0:
			return lock.Item{Lock: lock.Group(level), Mode: mode}
		}
		return lock.Item{Lock: lock.Member(level, rapid.SampledFrom(testNames).Draw(t, "name")), Mode: mode}
	})
	genItems    = rapid.SliceOfN(genItem, 0, 3)
	genSettings = rapid.Custom(func(t *rapid.T) Settings {
		return Settings{
			Slots:  rapid.IntRange(1, 5).Draw(t, "slots"),
			Order:  rapid.SampledFrom([]Order{Plain, Weights, Weights, Weights, Weights}).Draw(t, "order"),
			Ageing: 1,
			Base:   rapid.IntRange(0, 2).Draw(t, "base"),
			Tick:   rapid.SampledFrom([]time.Duration{time.Second, 3 * time.Second}).Draw(t, "tick"),
			K:      rapid.IntRange(1, 8).Draw(t, "K"),
		}
	})
)

// pair is a State and its model, which receive the same reports.
type pair struct {
	*State
	m     *model
	now   time.Time
	eager bool // picks after each report
}

// candidate is a new candidate, or a known one that may have changed.
func (p *pair) candidate(t *rapid.T) Candidate {
	id := genID.Draw(t, "id")
	c, known := p.m.candidates[id]
	change := func(what string) bool { return !known || rapid.IntRange(0, 2).Draw(t, what) == 0 }
	c.ID = id
	if change("change received") {
		c.ReceivedUs = time.Unix(10, 0).UnixMicro() + int64(c.ID)*700_000
		if rapid.IntRange(0, 5).Draw(t, "other clock") == 0 {
			c.ReceivedUs += int64(rapid.IntRange(-10_000_000, 10_000_000).Draw(t, "off"))
		}
	}
	if change("change priority") {
		c.Priority = genPriority.Draw(t, "priority")
	}
	if change("change declared") {
		c.Declared = genDeclared.Draw(t, "declared")
	}
	if change("change limits") {
		c.Limits = genLimits.Draw(t, "limits")
	}
	return c
}

// job is any job, mostly one with a live process.
func (p *pair) job(t *rapid.T) job.ID {
	live := append(p.RunningIDs(), p.YieldedIDs()...)
	if len(live) == 0 || rapid.IntRange(0, 4).Draw(t, "any") == 0 {
		return genID.Draw(t, "id")
	}
	return rapid.SampledFrom(live).Draw(t, "live")
}

func (p *pair) owner(t *rapid.T) lock.Owner {
	if rapid.IntRange(0, 3).Draw(t, "named") == 0 {
		return lock.NamedOwner(rapid.SampledFrom([]string{"8", "wconfd"}).Draw(t, "name"), "", 1)
	}
	return lock.Owner{Job: p.job(t)}
}

func (p *pair) actions() map[string]func(*rapid.T) {
	enqueue := func(t *rapid.T) {
		c := p.candidate(t)
		p.Enqueue(c)
		p.m.enqueue(c)
	}
	setHeld := func(t *rapid.T) {
		o, held, pending := p.owner(t), genItems.Draw(t, "held"), genItems.Draw(t, "pending")
		told := o
		if !o.Named {
			told.Livelock, told.PID = "live", rapid.IntRange(1, 2).Draw(t, "pid")
		}
		p.SetOwnerLocks(told, held, pending)
		p.m.setOwnerLocks(o, held, pending)
	}
	return map[string]func(*rapid.T){
		"enqueue": enqueue, "enqueue more": enqueue, "enqueue yet more": enqueue,
		"set held": setHeld, "set held too": setHeld,
		"withdraw": func(t *rapid.T) {
			id := genID.Draw(t, "id")
			p.Withdraw(id)
			delete(p.m.candidates, id)
		},
		"running": func(t *rapid.T) {
			c := p.candidate(t)
			p.AddRunning(c)
			p.m.runningJob(c)
		},
		"leave": func(t *rapid.T) {
			id := genID.Draw(t, "id")
			p.Remove(id)
			p.m.leave(id)
		},
		"end": func(t *rapid.T) {
			id := p.job(t)
			p.Remove(id)
			p.m.leave(id)
		},
		"yield": func(t *rapid.T) {
			id := p.job(t)
			p.Yield(id)
			p.m.yield(id)
		},
		"set limits": func(t *rapid.T) {
			id, limits := p.job(t), genLimits.Draw(t, "limits")
			p.SetLimits(id, limits)
			p.m.setLimits(id, limits)
		},
		"set declared": func(t *rapid.T) {
			id, atHand, later := p.job(t), genDeclared.Draw(t, "at hand"), genDeclared.Draw(t, "later")
			p.SetDeclared(id, atHand, later)
			p.m.setDeclared(id, atHand, later)
		},
		"settings": func(t *rapid.T) {
			s := genSettings.Draw(t, "settings")
			p.SetSettings(s)
			p.m.setSettings(s)
		},
		"time": func(t *rapid.T) {
			p.now = p.now.Add(time.Duration(rapid.IntRange(-1_000, 4_000).Draw(t, "ms")) * time.Millisecond)
		},
		"pick": p.pickBoth,
		"":     p.check,
	}
}

func (p *pair) pickBoth(t *rapid.T) { require.Equal(t, p.m.pick(p.now), p.Pick(p.now)) }

func (p *pair) check(t *rapid.T) {
	if p.eager {
		p.pickBoth(t)
	}
	require.Equal(t, len(p.m.candidates), p.Len())
	require.Equal(t, len(p.m.running), p.SlotsInUse())
	require.Len(t, p.YieldedIDs(), len(p.m.held))
	for i, c := range p.m.order(p.now) {
		w, is := p.Explain(c.ID, p.now, 1_000_000)
		require.True(t, is)
		require.Equal(t, i+1, w.Position)
		require.Equal(t, p.m.full(c), w.FullLimits)
		require.Equal(t, p.m.age(c, p.now), w.AgeTicks)
		if p.m.settings.Order != Weights {
			require.Zero(t, w.StaticWeight+w.Weight)
			continue
		}
		require.InDelta(t, p.m.static(c.Declared), w.StaticWeight, 1e-9)
		require.InDelta(t, w.StaticWeight*max(0, 1-float64(w.AgeTicks)/float64(p.m.settings.K)), w.Weight, 1e-9)
		p.checkCauses(t, c, w)
	}
}

// Each cause has an owner that runs, and the causes sum up to the weight.
func (p *pair) checkCauses(t *rapid.T, c Candidate, w Explanation) {
	sum := float64(p.m.settings.Base)
	if w.BGL {
		sum += bigLockValue
	}
	for _, cause := range w.Causes {
		sum += cause.Value
		if !cause.Owner.Named && (cause.ClaimKind == Expects || cause.ClaimKind == Later) {
			require.Contains(t, p.m.running, cause.Owner.Job)
		} else {
			require.Contains(t, p.m.real, cause.Owner)
		}
		if cause.Level == lock.Cluster {
			continue
		}
		mine := column{known: cause.Claimed}
		if hasNames(cause.Claimed) {
			require.Equal(t, cause.Level, cause.Lock.Level())
			mine = columnOf(lock.Item{Lock: cause.Lock, Mode: map[bool]lock.Mode{true: lock.Exclusive, false: lock.Shared}[cause.Claimed == lock.ExclusiveSet]})
		}
		want := *c.Declared.At(cause.Level)
		require.Equal(t, want.Kind, cause.Demand)
		require.InDelta(t, p.m.worst(want, []column{mine}), cause.Value, 1e-9)
	}
	require.InDelta(t, w.StaticWeight, sum, 1e-9)
}

// end removes all jobs and owners, and checks that nothing is left.
func (p *pair) end(t *rapid.T) {
	for id := job.ID(1); id <= 14; id++ {
		p.Remove(id)
	}
	for _, name := range []string{"8", "wconfd"} {
		p.SetOwnerLocks(lock.NamedOwner(name, "", 1), nil, nil)
	}
	p.refresh(p.now)
	g := p.groups
	w := p.order.(*weights)
	require.Zero(t, w.contention)
	require.Empty(t, w.owners)
	require.Empty(t, g.buckets.live)
	require.Empty(t, g.buckets.byKey)
	require.Empty(t, g.limits.counters)
	require.Empty(t, g.limits.byKey)
	require.Zero(t, g.byID.used+g.byHash.used+g.names.byHash.used)
	for what, kept := range map[string]int{
		"groups": len(g.items) - len(g.free), "entries": len(g.entries.items) - len(g.entries.free),
		"names": len(g.names.items) - len(g.names.free), "links": len(g.names.links.items) - len(g.names.links.free),
		"lanes": len(g.buckets.items) - len(g.buckets.free), "sets": len(g.limits.sets.items) - len(g.limits.sets.free),
	} {
		require.LessOrEqual(t, kept, 1, what)
	}
}

func TestDecisionsAreThoseOfTheModel(t *testing.T) {
	design := readDesign(t)
	rapid.Check(t, func(t *rapid.T) {
		settings := genSettings.Draw(t, "settings")
		p := &pair{NewState(settings), newModel(design, settings), time.Unix(20, 0), rapid.Bool().Draw(t, "eager")}
		t.Repeat(p.actions())
		p.end(t)
	})
}

// After K ticks a job goes before all younger jobs, whatever its demands.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := genSettings.Draw(t, "settings")
		settings.Slots, settings.Order, settings.Base = 100, Weights, 1
		s := NewState(settings)
		s.AddRunning(Candidate{ID: 100, Declared: genDeclared.Draw(t, "running")})
		now := time.Unix(1000, 0)
		ages := map[job.ID]int{}
		age := 2 * settings.K
		for id := job.ID(1); id <= 12; id++ {
			age = max(0, age-rapid.IntRange(0, 3).Draw(t, "later"))
			ages[id] = age
			received := now.UnixMicro() - int64(age)*settings.Tick.Microseconds()
			s.Enqueue(Candidate{ID: id, ReceivedUs: received, Declared: genDeclared.Draw(t, "declared")})
		}
		picked := s.Pick(now)
		require.Len(t, picked, 12)
		old := 0
		for id := job.ID(1); ages[id] >= settings.K; id++ {
			require.Equal(t, id, picked[old])
			old++
		}
	})
}

// However the clock jumps, ages never increase with ids, and a later job makes no earlier job younger.
func TestArrivalTicksRiseWithIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b arrivalTicks
		counts := map[job.ID]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "jobs") {
			id, tick := job.ID(rapid.IntRange(1, 40).Draw(t, "id")), int64(rapid.IntRange(0, 12).Draw(t, "tick"))
			tick, lowers := b.record(id, tick)
			needed := false
			for other, was := range counts {
				if other < id && was > tick {
					needed = true
					counts[other] = tick
				}
			}
			require.True(t, lowers || !needed)
			counts[id] = tick
			last := int64(math.MinInt64)
			for id := job.ID(1); id <= 40; id++ {
				if tick, known := counts[id]; known {
					require.GreaterOrEqual(t, tick, last)
					last = tick
				}
			}
			for i, m := range b.ranges {
				require.LessOrEqual(t, m.first, m.last)
				require.True(t, i == 0 || b.ranges[i-1].last < m.first && b.ranges[i-1].tick < m.tick)
			}
		}
	})
}
