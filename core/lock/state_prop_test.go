package lock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// blocked is the "blocked situation" of locks.md 8B: an owner without locks that has begun to wait.
type blocked struct {
	state    *State
	owner    Owner
	request  Request
	waited   []Owner // the owners that waited before
	blockers []Owner
}

// drawBlocked makes a blocked situation from a random state in which at least one lock is held.
func drawBlocked(t *rapid.T, d domain) blocked {
	s := d.build(drawHistory(t, d))
	if len(s.Allocation().Holders()) == 0 {
		s.Release(epoch, jobOwner(0))
		_, err := s.TryUpdate(epoch, jobOwner(0), drawConsistent(t, d, 3))
		require.NoError(t, err)
	}
	b := blocked{state: s, owner: jobOwner(rapid.SampledFrom([]int{-1, 3}).Draw(t, "before or behind") + 1)}
	b.owner.Livelock = "/another"
	h := rapid.SampledFrom(s.Snapshot().Holdings).Draw(t, "who is in the way")
	taken := rapid.SampledFrom(h.Locks).Draw(t, "what is in the way")
	b.request = drawConsistent(t, d, 3)
	b.request = slices.DeleteFunc(b.request, func(i Item) bool { return i.Lock == taken.Lock })
	b.request = append(b.request, Item{taken.Lock, Exclusive})
	for _, p := range s.Pending() {
		b.waited = append(b.waited, p.Owner)
	}
	u, err := s.UpdateWaiting(epoch, Pending{rapid.IntRange(-2, 2).Draw(t, "priority"), b.owner, b.request})
	require.NoError(t, err)
	require.False(t, u.Granted)
	require.NotEmpty(t, u.Blockers)
	require.Equal(t, []Owner{b.owner}, u.Changed)
	b.blockers = u.Blockers
	return b
}

// locks.md 8B.1
func TestWhoWaitsMayNotAsk(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		b := drawBlocked(t, d)
		for _, req := range []Request{{}, b.request, drawRequest(t, d, 4)} {
			_, err := b.state.TryUpdate(epoch, b.owner, req)
			require.ErrorIs(t, err, ErrPending)
			_, err = b.state.UpdateWaiting(epoch, Pending{0, b.owner, req})
			require.ErrorIs(t, err, ErrPending)
		}
	})
}

// locks.md 8B.2, 8B.3 and 8B.4
func TestWhoWaitsGetsAllOnceOthersAreGone(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		b := drawBlocked(t, d)
		require.True(t, b.state.HasPending(b.owner), "8B.2")
		require.Equal(t, b.blockers, b.state.Blockers(b.owner))
		var notified []Owner
		for _, o := range append(slices.Clone(b.waited), b.blockers...) {
			notified = append(notified, b.state.Release(epoch, o).Notify...)
			inspect(t, b.state)
		}
		want := slices.Clone(b.request)
		slices.SortFunc(want, Item.Compare)
		require.Equal(t, []Item(want), b.state.Allocation().Held(b.owner), "8B.3")
		require.Contains(t, notified, b.owner, "8B.4")
	})
}

// locks.md 8B.5 and 8B.6
func TestReleasesOfBlockersGrantSomething(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		b := drawBlocked(t, d)
		wanted := map[Owner]Request{}
		for _, p := range b.state.Pending() {
			wanted[p.Owner] = p.Request
		}
		var notified []Owner
		for _, o := range b.blockers {
			notified = append(notified, b.state.Release(epoch, o).Notify...)
		}
		notified = slices.DeleteFunc(notified, func(o Owner) bool { return slices.Contains(b.blockers, o) })
		require.NotEmpty(t, notified, "8B.5")
		for _, o := range notified {
			for _, i := range wanted[o] {
				require.Equal(t, i.Mode, b.state.Allocation().Mode(o, i.Lock), "8B.6")
			}
		}
	})
}

// locks.md 8B.7
func TestPendingRequestsAreValidAndBlocked(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := d.build(drawHistory(t, d))
		for _, p := range s.Pending() {
			blockers, err := s.Allocation().clone().Update(p.Owner, p.Request)
			require.NoError(t, err)
			require.NotEmpty(t, blockers)
			require.Equal(t, blockers, s.Blockers(p.Owner))
		}
	})
}

// locks.md 8B.8 and 8B.9: a repeated request changes nothing.
func TestAskingTwiceIsAskingOnce(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		history := drawHistory(t, d)
		o, req, priority := drawOwner(t, 3), drawRequest(t, d, 4), rapid.IntRange(-2, 2).Draw(t, "priority")
		for number, ask := range map[string]func(*State) (Update, error){
			"8B.8": func(s *State) (Update, error) { return s.TryUpdate(epoch, o, req) },
			"8B.9": func(s *State) (Update, error) { return s.SafeUpdateWaiting(epoch, Pending{priority, o, req}) },
		} {
			s := d.build(history)
			once, err := ask(s)
			snap := s.Snapshot()
			twice, err2 := ask(s)
			require.Equal(t, err, err2, number)
			require.Equal(t, once.Granted, twice.Granted, number)
			require.Equal(t, once.Blockers, twice.Blockers, number)
			require.Empty(t, twice.Notify, number)
			require.Empty(t, twice.Changed, number)
			require.Equal(t, snap, s.Snapshot(), number)
		}
	})
}

// locks.md 8B.10
func TestSafeIsWaitingForWhoDoesNotWait(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		history := drawHistory(t, d)
		a, b := d.build(history), d.build(history)
		p := Pending{rapid.IntRange(-2, 2).Draw(t, "priority"), drawOwner(t, 3), drawRequest(t, d, 4)}
		a.RemovePending(epoch, p.Owner)
		b.RemovePending(epoch, p.Owner)
		u, err := a.UpdateWaiting(epoch, p)
		v, err2 := b.SafeUpdateWaiting(epoch, p)
		require.Equal(t, err, err2)
		require.Equal(t, u, v)
		require.Equal(t, a.Snapshot(), b.Snapshot())
	})
}

// locks.md 8B.11 to 8B.14: a State is determined by its allocation and its pending requests.
func TestAStateIsWhatItsSnapshotSays(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := d.build(drawHistory(t, d))
		snap, err := Decode(Encode(s.Snapshot()))
		require.NoError(t, err, "8B.14")
		require.Equal(t, s.Snapshot(), withPending(snap), "8B.14")
		again, restored, err := Restore(Settings{Hierarchy: d.hierarchy}, epoch, snap)
		require.NoError(t, err)
		require.Zero(t, restored)
		inspect(t, again)
		require.Equal(t, s.Snapshot(), again.Snapshot(), "8B.11")
		for range 4 {
			op := drawOperation(t, d, 3)
			answer, changed := op.on(s)
			answerAgain, changedAgain := op.on(again)
			require.Equal(t, answer, answerAgain, "8B.12 and 13")
			require.Equal(t, changed, changedAgain)
			require.Equal(t, s.Snapshot(), again.Snapshot(), "8B.12 and 13")
		}
	})
}

// withPending replaces a nil list of pending requests by an empty one, as Snapshot does.
func withPending(snap Snapshot) Snapshot {
	if snap.Pending == nil {
		snap.Pending = []Pending{}
	}
	return snap
}

// locks.md 8B.15 and 8B.16
func TestUnionOnlyAdds(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		s := d.build(drawHistory(t, d))
		o := drawOwner(t, 3)
		before := s.Allocation().clone()
		waited := s.HasPending(o)
		items := drawRequest(t, d, 6)
		union := s.OpportunisticUnion(epoch, o, items)
		inspect(t, s)
		require.True(t, slices.IsSortedFunc(union.Locks, func(a, b Lock) int { return b.Compare(a) }))
		require.False(t, waited && len(union.Locks) > 0)
		for _, l := range d.locks {
			was, is := before.Mode(o, l), s.Allocation().Mode(o, l)
			require.GreaterOrEqual(t, is, was, "8B.15")
			if slices.Contains(union.Locks, l) {
				require.Contains(t, items, Item{l, is}, "8B.16")
			} else {
				require.Equal(t, was, is, "8B.16")
			}
		}
	})
}
