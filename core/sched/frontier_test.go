package sched

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// First is the beginning of all candidates, sorted by priority, score and id.
func TestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := Defaults()
		settings.Order = rapid.SampledFrom([]Order{Expected, Plain}).Draw(t, "order")
		s := NewState(settings)
		var all []Candidate
		for id := range rapid.IntRange(0, 40).Draw(t, "jobs") {
			c := Candidate{ID: job.ID(id + 1), Priority: rapid.IntRange(0, 1).Draw(t, "priority"), ReceivedUs: int64(id) * 1e6,
				Expected: time.Duration(rapid.IntRange(1, 3).Draw(t, "minutes")) * time.Minute}
			c.Declared.Demands[0] = lock.Demand{Kind: lock.ExclusiveSet, Names: []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "name")}}
			all = append(all, c)
			s.Enqueue(c)
		}
		slices.SortFunc(all, func(a, b Candidate) int {
			if s.rankOf(&s.groups.entries.items[s.groups.entryOf(a.ID)], 0).before(s.rankOf(&s.groups.entries.items[s.groups.entryOf(b.ID)], 0)) {
				return -1
			}
			return 1
		})
		n := rapid.IntRange(0, 50).Draw(t, "n")
		var want []job.ID
		for _, c := range all[:min(n, len(all))] {
			want = append(want, c.ID)
		}
		require.Equal(t, want, s.First(n, time.Unix(100, 0)))
	})
}
