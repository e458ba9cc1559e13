package lock

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

func chooser(k int) Owner { return JobOwner(job.ID(k), fmt.Sprintf("/l/%d", k), k) }

// naiveFree reports whether an owner could take a lock, as the locks that all owners hold and all requests for more say.
func naiveFree(s *State, o Owner, i Item) bool {
	for _, other := range s.Allocation().Holders() {
		for _, held := range s.Allocation().Held(other) {
			same := held.Lock == i.Lock || held.Lock.IsGroup() && held.Lock.Level() == i.Lock.Level()
			if other != o && same && (held.Mode == Exclusive || i.Mode == Exclusive) {
				return false
			}
		}
	}
	return true
}

// Between two calls each owner that waits for some of a set lacks one, whatever owners request, choose, release, and withdraw; and an owner
// that got its choice has enough.
func TestNoChoiceWaitsForWhatIsFree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Settings{Hierarchy: Implied, BypassAfter: time.Duration(rapid.IntRange(0, 1).Draw(t, "bypass")) * time.Minute})
		nodes := []Lock{Member(Node, "a"), Member(Node, "b"), Member(Node, "c"), Member(Node, "d")}
		modes := []Mode{Shared, Exclusive}
		some := func() (items []Item) {
			for _, l := range nodes {
				if rapid.Bool().Draw(t, "wanted") {
					items = append(items, Item{l, rapid.SampledFrom(modes).Draw(t, "mode")})
				}
			}
			return items
		}
		counts := map[Owner]int{}
		sets := map[Owner][]Item{}
		now := time.Unix(0, 0)
		for range rapid.IntRange(1, 30).Draw(t, "calls") {
			o := chooser(rapid.IntRange(1, 4).Draw(t, "owner"))
			now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
			var u Update
			var err error
			switch rapid.IntRange(0, 4).Draw(t, "call") {
			case 0:
				u, err = s.UpdateWaiting(now, Pending{Owner: o, Request: some()})
			case 1:
				u, err = s.TryUpdate(now, o, Request{{Group(Node), rapid.SampledFrom(modes).Draw(t, "mode of all")}})
			case 2:
				u = s.Release(now, o)
			case 3:
				u = s.RemovePending(now, o)
			case 4:
				items := some()
				if len(items) == 0 {
					continue
				}
				counts[o], sets[o] = rapid.IntRange(1, len(items)).Draw(t, "count"), items
				u, err = s.Choose(now, o, counts[o], items)
				require.Equal(t, err == nil && !u.Granted, s.Choosing(o))
				if u.Granted {
					requireEnough(t, s, o, counts[o], items)
				}
			}
			if err != nil {
				continue
			}
			for _, got := range u.Notify {
				require.False(t, s.Choosing(got) || s.HasPending(got))
			}
			requireChoicesBlocked(t, s, u)
		}
	})
}

func requireEnough(t *rapid.T, s *State, o Owner, count int, items []Item) {
	for _, i := range items {
		if s.Allocation().Mode(o, i.Lock) >= i.Mode {
			count--
		}
	}
	require.LessOrEqual(t, count, 0)
}

func requireChoicesBlocked(t *rapid.T, s *State, u Update) {
	for _, c := range s.Choices() {
		require.NotContains(t, u.Notify, c.Owner)
		require.False(t, s.HasPending(c.Owner))
		free := 0
		for _, i := range c.Items {
			if naiveFree(s, c.Owner, i) && (s.BypassAfter() == 0 || len(s.Pending()) == 0) && s.Allocation().Mode(c.Owner, Group(Node)) == None && len(s.Allocation().Held(c.Owner)) == 0 {
				free++
			}
		}
		require.Less(t, free, c.Count, "%v waits for %d of %v", c.Owner, c.Count, c.Items)
	}
}

func BenchmarkReleaseWithChoices(b *testing.B) {
	for _, waiting := range []int{0, 10, 1000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			s := New(Settings{Hierarchy: Implied})
			now := time.Unix(0, 0)
			for k := range waiting { // for locks of others
				blocked := Item{Member(Node, fmt.Sprintf("x%d", k)), Exclusive}
				if _, err := s.TryUpdate(now, chooser(k), Request{blocked}); err != nil {
					b.Fatal(err)
				}
				if _, err := s.Choose(now, chooser(waiting+k), 1, []Item{blocked}); err != nil {
					b.Fatal(err)
				}
			}
			o := NamedOwner("x", "/l/x", 1)
			for b.Loop() {
				if _, err := s.TryUpdate(now, o, Request{{Member(Node, "a"), Exclusive}}); err != nil {
					b.Fatal(err)
				}
				s.Release(now, o)
			}
		})
	}
}
