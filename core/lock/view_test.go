package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// Conflicts are the Blockers, each with the locks of the request that it blocks alone.
func TestConflictsOfAView(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := NewView(Implied)
		owner := rapid.Custom(func(t *rapid.T) Owner {
			return JobOwner(job.ID(rapid.IntRange(1, 4).Draw(t, "id")), "", 0)
		})
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
			l := rapid.SampledFrom([]Lock{BGL, Group(Node), Member(Node, "a"), Member(Node, "b"), Member(Instance, "i")}).Draw(t, "lock")
			return Item{l, rapid.SampledFrom([]Mode{Shared, Exclusive}).Draw(t, "mode")}
		}), 0, 4)
		for range rapid.IntRange(0, 5).Draw(t, "owners") {
			v.Set(owner.Draw(t, "owner"), items.Draw(t, "items"), func(Point) {})
		}
		of, request := owner.Draw(t, "asker"), Request(items.Draw(t, "request"))
		var owners []Owner
		for _, c := range v.Conflicts(of, request) {
			owners = append(owners, c.Owner)
			for _, i := range request {
				blocks := false
				for _, o := range v.Blockers(of, Request{i}) {
					blocks = blocks || o == c.Owner
				}
				if blocks {
					require.Contains(t, c.Locks, i.Lock)
				}
			}
			require.NotEmpty(t, c.Locks)
		}
		require.Equal(t, v.Blockers(of, request), owners)
	})
}
