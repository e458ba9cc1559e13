package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// own is a job with a different instance each, so that no two are alike, and with names that other jobs want, too.
func own(t *rapid.T, id job.ID, nodes [][]string) Candidate {
	c := Candidate{ID: id, Priority: rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 5}).Draw(t, "priority")}
	c.ReceivedUs = time.Unix(20, 0).UnixMicro() + int64(id)*20_000
	if rapid.IntRange(0, 49).Draw(t, "set back") == 0 {
		c.ReceivedUs -= int64(rapid.IntRange(0, 9_000_000).Draw(t, "by"))
	}
	if rapid.IntRange(0, 9).Draw(t, "is limited") == 0 {
		c.Limits = genLimits.Draw(t, "limits")
	}
	c.Declared.Demands[0] = lock.Demand{Kind: lock.ExclusiveSet, Names: []string{fmt.Sprint("i", id)}}
	known := rapid.SampledFrom([]lock.DemandKind{lock.ExclusiveSet, lock.ExclusiveSet, lock.ExclusiveSet, lock.SharedSet}).Draw(t, "known")
	names := rapid.SampledFrom(nodes).Draw(t, "names")
	c.Declared.Demands[lock.Node-lock.Instance] = lock.Demand{Kind: known, Names: names}
	if rapid.IntRange(0, 3).Draw(t, "resources too") == 0 {
		c.Declared.Demands[lock.NodeRes-lock.Instance] = lock.Demand{Kind: lock.ExclusiveSet, Names: names}
	}
	return c
}

// genTaken draws the locks that an owner holds among a few names.
var genTaken = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lock.Item {
	level := rapid.SampledFrom([]lock.Level{lock.Node, lock.Node, lock.NodeRes}).Draw(t, "level")
	mode := rapid.SampledFrom([]lock.Mode{lock.Shared, lock.Exclusive, lock.Exclusive}).Draw(t, "mode")
	return lock.Item{Lock: lock.Member(level, rapid.SampledFrom(testNames).Draw(t, "name")), Mode: mode}
}), 0, 3)

// A backlog of many groups that want a few names, while these are taken and released: some picks end at once, others
// move many groups.
func TestDecisionsAboutManyGroupsAreThoseOfTheModel(t *testing.T) {
	design := readDesign(t)
	rapid.Check(t, func(t *rapid.T) {
		settings := genSettings.Draw(t, "settings")
		p := &pair{NewState(settings), newModel(design, settings), time.Unix(20, 0), false}
		nodes := rapid.SampledFrom([][][]string{{{"a"}, {"a", "b"}, {"b"}, {"b", "c"}, {"c"}}, {{"a"}, {"a", "b"}}}).Draw(t, "nodes")
		next := job.ID(1)
		enqueue := func(t *rapid.T, c Candidate) {
			p.Enqueue(c)
			p.m.enqueue(c)
		}
		for range rapid.SampledFrom([]int{5, 40, 160}).Draw(t, "pending") {
			enqueue(t, own(t, next, nodes))
			next++
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "taken or freed") {
				o, held := lock.NamedOwner("wconfd", "", 1), genTaken.Draw(t, "held")
				p.SetOwnerLocks(o, held, nil)
				p.m.setOwnerLocks(o, held, nil)
			}
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				p.now = p.now.Add(time.Duration(rapid.IntRange(-1_000, 4_000).Draw(t, "ms")) * time.Millisecond)
			case 1:
				s := genSettings.Draw(t, "settings")
				p.SetSettings(s)
				p.m.setSettings(s)
			case 2: // perhaps a known job, with other demands and another time of submission
				c := own(t, job.ID(rapid.IntRange(1, int(next)).Draw(t, "id")), nodes)
				c.Declared = rapid.OneOf(rapid.Just(c.Declared), genDeclared).Draw(t, "declared")
				enqueue(t, c)
			default:
				for _, id := range p.RunningIDs() {
					p.Remove(id)
					p.m.leave(id)
				}
			}
			p.pickBoth(t)
			checkBuckets(t, p.State)
		}
		p.drain(t)
	})
}

// drain picks all jobs that the limits and the running jobs do not block.
func (p *pair) drain(t *rapid.T) {
	for {
		picked := p.Pick(p.now)
		require.Equal(t, p.m.pick(p.now), picked)
		if len(picked) == 0 {
			return
		}
		for _, id := range p.RunningIDs() {
			p.Remove(id)
			p.m.leave(id)
		}
	}
}

// checkBuckets checks the invariants of buckets.
func checkBuckets(t *rapid.T, s *State) {
	g, groups := s.groups, 0
	for i, at := range g.buckets.live {
		l := &g.buckets.items[at]
		require.EqualValues(t, i, l.liveIndex)
		require.NotZero(t, l.byID.Len())
		first := s.rankOf(g.rootOf(l.byID.First()), g.bucketMask(l))
		for place, group := range l.byID.Items() {
			require.Equal(t, at, g.items[group].bucket)
			require.EqualValues(t, place, g.items[group].heapIndex)
			require.LessOrEqual(t, g.items[l.byID.Items()[max(0, place-1)/2]].id, g.items[group].id)
			require.False(t, s.rankOf(g.rootOf(group), g.currentMask(group)).before(first))
			names := slices.Collect(g.namesOf(group))
			for _, name := range l.blockingNames {
				require.True(t, name == 0 || slices.Contains(names, name))
			}
		}
		groups += l.byID.Len()
	}
	require.Equal(t, g.byHash.used, groups)
}

// A node that all candidates want is taken and released: each pick finds the first.
func TestMostOfABacklogWaitsForOneNode(t *testing.T) {
	s := NewState(slots(1))
	for id := job.ID(1); id <= 500; id++ {
		c := exclusively(id, map[bool]string{true: "n1", false: "n2"}[id%150 != 0])
		c.Declared.Demands[0] = lock.Demand{Kind: lock.ExclusiveSet, Names: []string{fmt.Sprint("i", id)}}
		s.Enqueue(c)
	}
	for n, want := range []job.ID{150, 1, 300, 2, 450, 3, 4} {
		mode := []lock.Mode{lock.Exclusive, lock.None}[n%2]
		s.SetOwnerLocks(wconfd, []lock.Item{node("n1", mode)}, nil)
		require.Equal(t, []job.ID{want}, s.Pick(noon))
		s.Remove(want)
	}
}
