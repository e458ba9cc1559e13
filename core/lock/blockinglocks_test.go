package lock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An owner holds a lock that conflicts with a request if and only if it blocks the request.
func TestBlockingLocks(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := d.build(drawHistory(t, d))
		for _, p := range s.Pending() {
			blockers := s.Blockers(p.Owner)
			for _, o := range s.Owners() {
				if o == p.Owner {
					continue
				}
				found := s.BlockingLocks(p.Request, o)
				require.Equal(t, slices.Contains(blockers, o), len(found) > 0, "%v and %v: %v", p, o, found)
				require.True(t, slices.IsSortedFunc(found, Lock.Compare))
				for _, l := range found {
					require.Greater(t, s.Allocation().Mode(o, l), None)
				}
			}
		}
	})
}

// A change of priority changes the position of a request, and nothing else.
func TestReprioritise(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := d.build(drawHistory(t, d))
		before := s.Snapshot()
		o, priority := drawOwner(t, 3), rapid.IntRange(-3, 3).Draw(t, "new priority")
		u := s.Reprioritise(o, priority)
		inspect(t, s)
		require.Empty(t, u.Notify)
		changes := false
		for n := range before.Pending {
			if p := &before.Pending[n]; p.Owner == o && p.Priority != priority {
				p.Priority, changes = priority, true
			}
		}
		slices.SortFunc(before.Pending, func(a, b Pending) int { return a.Compare(&b) })
		require.Equal(t, before, s.Snapshot())
		require.Equal(t, changes, slices.Equal([]Owner{o}, u.Changed))
	})
}
