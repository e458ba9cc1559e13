package lock

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What Ganeti's programs may see never names a free lock, and nothing is lost: both parts together are the state.
func TestTheStateIsItsTwoParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := production.build(drawHistory(t, production))
		whole := s.Snapshot()
		ganeti, free := whole.Split()
		require.NotContains(t, string(Encode(ganeti)), `"lock/`)
		require.Equal(t, string(Encode(whole)), string(Encode(Join(ganeti, free))))
		for _, h := range free.Holdings {
			for _, i := range h.Locks {
				require.True(t, i.Lock.IsFree())
			}
		}
		for _, p := range free.Pending {
			require.True(t, p.Request.namesFree())
		}
		for _, o := range s.Owners() {
			r := s.Record(o)
			g, f := r.Split()
			require.Equal(t, r.Empty(), g.Empty() && f.Empty())
			require.ElementsMatch(t, r.Locks, slices.Concat(g.Locks, f.Locks))
		}
	})
}

// Ganeti's queries about all locks do not name free locks; the owner's own list does.
func TestFreeLocksAreInNoAnswerOfGaneti(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	deploy, x := Member(Free, "deploy"), Item{Member(Node, "x"), Exclusive}
	for _, p := range []Pending{
		{0, jobOwner(1), Request{{BGL, Shared}, {deploy, Exclusive}}},
		{0, jobOwner(2), Request{{BGL, Shared}, x, {deploy, Shared}}},
		{0, jobOwner(3), Request{{deploy, Exclusive}}},
	} {
		_, err := s.UpdateWaiting(epoch, p)
		require.NoError(t, err)
	}
	ask := func(function string, args ...string) string {
		raw := make([]json.RawMessage, len(args))
		for i, a := range args {
			raw[i] = json.RawMessage(a)
		}
		c, err := ParseCall(function, raw)
		require.NoError(t, err)
		result, err := c.Do(s, epoch)
		require.NoError(t, err)
		text, err := json.Marshal(result.Result)
		require.NoError(t, err)
		return string(text)
	}
	for _, function := range []string{"listAllLocks", "listAllLocksOwners", "listLocksWaitingStatus"} {
		require.NotContains(t, ask(function), `"lock/`, function)
	}
	require.Equal(t, 1, strings.Count(ask("listLocksWaitingStatus"), "node/x"), "the part of a request that Ganeti knows")
	require.Contains(t, ask("listLocks", jobOwner(1).String()), `["lock/deploy","exclusive"]`)
}

// A crash between the two journals leaves Ganeti's part ahead. The owner can repeat its call, whatever was lost.
func TestARequestGoesOnAfterHalfOfItsGrant(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	x, deploy := Item{Member(Node, "x"), Exclusive}, Item{Member(Free, "deploy"), Exclusive}
	p := Pending{0, jobOwner(2), Request{{BGL, Shared}, x, deploy}}
	_, err := s.UpdateWaiting(epoch, Pending{0, jobOwner(1), Request{deploy}})
	require.NoError(t, err)
	_, err = s.UpdateWaiting(epoch, p)
	require.NoError(t, err)
	_, before := s.Snapshot().Split()
	require.Equal(t, []Owner{jobOwner(2)}, s.Release(epoch, jobOwner(1)).Notify)
	after, _ := s.Snapshot().Split()

	restored, result, err := Restore(Settings{Hierarchy: Implied}, epoch, Join(after, before))
	require.NoError(t, err)
	require.Empty(t, result.Dropped)
	require.True(t, restored.HasPending(jobOwner(2)), "job 1 still has the free lock")
	restored.Release(epoch, jobOwner(1))
	u, err := restored.SafeUpdateWaiting(epoch, p)
	require.NoError(t, err)
	require.True(t, u.Granted)
}

// If Ganeti's part has a newer request, the one of the free locks is over.
func TestTheNewerRequestCounts(t *testing.T) {
	old := Pending{0, jobOwner(1), Request{{Member(Free, "x"), Shared}}}
	now := Pending{0, jobOwner(1), Request{{BGL, Shared}}}
	require.Equal(t, []Pending{now}, Join(Snapshot{Pending: []Pending{now}}, Snapshot{Pending: []Pending{old}}).Pending)
}
