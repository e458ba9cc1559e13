package sched

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/lock"
)

func TestExplain(t *testing.T) {
	s := NewState(slots(2))
	s.AddRunning(exclusively(8, "n1"))
	s.AddRunning(exclusively(9, "n2"))
	s.SetOwnerLocks(jobOwnerKey(8), []lock.Item{bgl, node("n1", lock.Exclusive)}, nil)
	s.Enqueue(exclusively(10, "n1"))
	s.Enqueue(exclusively(11, "n3"))
	w, is := s.Explain(10, noon.Add(10*30*time.Second), 1000)
	require.True(t, is)
	require.Equal(t, Explanation{
		Running: 2, Slots: 2, Position: 2, AgeTicks: 10, Predictive: true, StaticWeight: 4, Weight: 4 * (1 - 10.0/30),
		Causes: []Cause{{
			Level: lock.Node, Value: 3, Demand: lock.ExclusiveSet,
			Owner: lock.Owner{Job: 8}, ClaimKind: Holds, Claimed: lock.ExclusiveSet, Lock: lock.Member(lock.Node, "n1"),
		}},
	}, w)
	// Neither conflicts with the other job, but both add to the contention.
	require.Equal(t, []Cause{{
		Level: lock.Node, Value: 0.5, Demand: lock.ExclusiveSet, Owner: lock.Owner{Job: 8}, OtherOwners: 1, ClaimKind: Holds,
		Claimed: lock.ExclusiveSet, Lock: lock.Member(lock.Node, "n1"),
	}}, explain(t, s, 11).Causes)
	for _, other := range []job.ID{8, 12} {
		_, is = s.Explain(other, noon, 1000)
		require.False(t, is, "no candidate")
	}
}

func TestExplainARunningJobThatWantsNothing(t *testing.T) {
	s := NewState(slots(1))
	s.AddRunning(Candidate{ID: 8})
	s.Enqueue(exclusively(10, "n1"))
	require.Equal(t, []Cause{{
		Level: lock.Node, Value: 0.5, Demand: lock.ExclusiveSet, Owner: lock.Owner{Job: 8}, ClaimKind: Expects, Claimed: lock.Nothing,
	}}, explain(t, s, 10).Causes)
}

func TestExplainTheBigLock(t *testing.T) {
	s := NewState(slots(1))
	s.AddRunning(Candidate{ID: 8})
	s.Enqueue(Candidate{ID: 10, ReceivedUs: noon.UnixMicro(), Declared: lock.Declaration{BGL: true}})
	s.Enqueue(exclusively(11, "n1"))
	w := explain(t, s, 10)
	require.True(t, w.BGL)
	require.Equal(t, 16.0, w.Weight)
	require.Empty(t, w.Causes)
	s.SetDeclared(8, lock.Declaration{}, lock.Declaration{BGL: true})
	require.Equal(t, []Cause{{
		Level: lock.Cluster, Value: 15, Owner: lock.Owner{Job: 8}, ClaimKind: Later, Claimed: lock.AllExclusive, Lock: lock.BGL,
	}}, explain(t, s, 11).Causes)
}

func TestExplainInPlainOrder(t *testing.T) {
	s := NewState(plain(1))
	s.AddRunning(exclusively(8, "n1"))
	s.Enqueue(exclusively(10, "n1"))
	require.Equal(t, Explanation{Running: 1, Slots: 1, Position: 1}, explain(t, s, 10))
}

func TestClaimKindsHaveWords(t *testing.T) {
	for how, word := range map[ClaimKind]string{Holds: "holds", Awaits: "awaits", Expects: "expects", Later: "later"} {
		require.Equal(t, word, how.String())
	}
}

// The explanation of a job far behind examines a bounded number of candidates, and says that the position is a minimum.
// Positions near the front are exact.
func TestAPlaceFarBehind(t *testing.T) {
	for name, candidate := range map[string]func(job.ID) Candidate{
		"alike":     func(id job.ID) Candidate { return exclusively(id, "n1") },
		"different": func(id job.ID) Candidate { return exclusively(id, fmt.Sprint("n", id)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(slots(1))
			s.AddRunning(Candidate{ID: 1})
			const all = 5000
			for id := range job.ID(all) {
				s.Enqueue(candidate(id + 2))
			}
			for id, want := range map[job.ID]int{2: 1, 3: 2, 60: 59} {
				w, _ := s.Explain(id, noon, 200)
				require.Equal(t, want, w.Position)
				require.False(t, w.PositionIsMinimum)
			}
			w, _ := s.Explain(all, noon, 200)
			require.True(t, w.PositionIsMinimum)
			require.LessOrEqual(t, w.Position, 202)
			w, _ = s.Explain(all, noon, 2*all)
			require.Equal(t, all-1, w.Position)
			require.False(t, w.PositionIsMinimum)
		})
	}
}
