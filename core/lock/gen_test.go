package lock

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// domain is a hierarchy, and the few of its locks that tests use.
type domain struct {
	name      string
	hierarchy Hierarchy
	locks     []Lock
}

// small is the hierarchy of Ganeti's own tests (locks.md 8): Big < CollA < A0..A2 < CollB < B0..B2.
var small = domain{"small", func(l Lock) []Lock {
	switch big := Group(Cluster); {
	case l == big:
		return nil
	case l.group:
		return []Lock{big}
	default:
		return []Lock{Group(l.level), big}
	}
}, []Lock{
	Group(Cluster),
	Group(Instance), Member(Instance, "a0"), Member(Instance, "a1"), Member(Instance, "a2"),
	Group(NodeGroup), Member(NodeGroup, "b0"), Member(NodeGroup, "b1"), Member(NodeGroup, "b2"),
}}

var production = domain{"production", Implied, []Lock{
	Group(Cluster), BGL, Member(Instance, "i"),
	Group(Node), Member(Node, "a"), Member(Node, "b"), Member(Node, "c"),
	Group(NodeRes), Member(NodeRes, "a"), Member(NodeRes, "b"), ConfigLock, Member(Free, "d"), Member(Free, "e"),
}}

// onBoth checks a property on both lattices.
func onBoth(t *testing.T, check func(*rapid.T, domain)) {
	for _, d := range []domain{small, production} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) { check(t, d) })
		})
	}
}

func jobOwner(id int) Owner { return JobOwner(job.ID(id), fmt.Sprintf("/livelock/%d", id), 100+id) }

// drawOwner is one of a number of owners.
func drawOwner(t *rapid.T, owners int) Owner {
	return jobOwner(rapid.IntRange(0, owners-1).Draw(t, "owner"))
}

func drawLock(t *rapid.T, d domain) Lock { return rapid.SampledFrom(d.locks).Draw(t, "lock") }

func drawRequest(t *rapid.T, d domain, most int) Request {
	var req Request
	for range rapid.IntRange(1, most).Draw(t, "items") {
		req = append(req, Item{drawLock(t, d), Mode(rapid.IntRange(0, 2).Draw(t, "mode"))})
	}
	return req
}

// drawConsistent is a request that wants no lock in two modes, and releases nothing.
func drawConsistent(t *rapid.T, d domain, most int) Request {
	var req Request
	for range rapid.IntRange(1, most).Draw(t, "items") {
		i := Item{drawLock(t, d), Mode(rapid.IntRange(1, 2).Draw(t, "mode"))}
		if !slices.ContainsFunc(req, func(k Item) bool { return k.Lock == i.Lock }) {
			req = append(req, i)
		}
	}
	return req
}

// drawTable is the random state of locks.md 8A.
func drawTable(t *rapid.T, d domain) *Table {
	table := NewTable(d.hierarchy)
	for range rapid.IntRange(0, 8).Draw(t, "operations") {
		o := drawOwner(t, 3)
		if rapid.IntRange(0, 4).Draw(t, "free") == 0 {
			table.ReleaseAll(o)
			continue
		}
		_, _ = table.Update(o, drawRequest(t, d, 4))
	}
	return table
}

// operation is one call of a State.
type operation struct {
	verb     string
	owner    Owner
	priority int
	items    []Item
	least    int
}

// drawOperation is one of the operations of locks.md 8B and of the rest of 1.6.
func drawOperation(t *rapid.T, d domain, owners int) operation {
	op := operation{
		verb: rapid.SampledFrom([]string{"try", "try", "wait", "wait", "wait", "safe", "remove", "release", "intersect", "free", "downgrade",
			"union"}).Draw(t, "verb"),
		owner:    drawOwner(t, owners),
		priority: rapid.IntRange(-2, 2).Draw(t, "priority"),
		items:    drawRequest(t, d, 4),
		least:    rapid.IntRange(0, 2).Draw(t, "least"),
	}
	return op
}

func (op operation) locks() []Lock {
	var locks []Lock
	for _, i := range op.items {
		locks = append(locks, i.Lock)
	}
	return locks
}

// on does the operation, and returns the answer as text and the owners whose records changed.
func (op operation) on(s *State) (string, []Owner) {
	p := Pending{op.priority, op.owner, op.items}
	var u Update
	var err error
	switch op.verb {
	case "try":
		u, err = s.TryUpdate(epoch, op.owner, op.items)
	case "wait":
		u, err = s.UpdateWaiting(epoch, p)
	case "safe":
		u, err = s.SafeUpdateWaiting(epoch, p)
	case "remove":
		u = s.RemovePending(epoch, op.owner)
	case "release":
		u = s.Release(epoch, op.owner)
	case "intersect":
		u = s.Intersect(epoch, op.owner, op.locks())
	case "free":
		u = s.ReleaseLevel(epoch, op.owner, op.items[0].Lock.level)
	case "downgrade":
		u = s.DowngradeLevel(epoch, op.owner, op.items[0].Lock.level)
	case "union":
		union := s.GuardedOpportunisticUnion(epoch, op.owner, op.items, op.least)
		return fmt.Sprint("obtained ", names(union.Locks)), union.Changed
	}
	return shown(u, err), u.Changed
}

// drawHistory is the operations that lead to the random state of locks.md 8B.
func drawHistory(t *rapid.T, d domain) []operation {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) operation { return drawOperation(t, d, 3) }), 0, 8).Draw(t, "history")
}

// build makes the state of a history.
func (d domain) build(history []operation) *State {
	s := New(Settings{Hierarchy: d.hierarchy})
	for _, op := range history {
		op.on(s)
	}
	return s
}

// inspect checks the invariants of all types.
func inspect(t require.TestingT, s *State) {
	inspectTable(t, s.table)
	waiting := 0
	for o, h := range s.table.holders {
		require.True(t, len(h.held) > 0 || h.pending != nil, "%v is known for nothing", o)
		if r := h.pending; r != nil {
			waiting++
			inspectRequest(t, s, h, r)
		}
	}
	require.Equal(t, s.pendingCount, waiting)
	require.Zero(t, s.pass.ready.Len())
}

func inspectRequest(t require.TestingT, s *State, h *holder, r *request) {
	require.Same(t, h, r.holder)
	require.NotNil(t, r.queue)
	require.Same(t, r, r.queue.heap.Items()[r.index])
	require.True(t, r.index == 0 || !r.before(r.queue.heap.Items()[(r.index-1)/2]), "heap order")
	require.NoError(t, s.table.check(h, r.Request))
	if r.queue.isWithheld() {
		require.Same(t, s.withheld.queueOf(h.owner), r.queue)
		require.False(t, r.overdue, "%v is withheld and in the way of others", h.owner)
		return
	}
	if r.queue.point != nil {
		require.True(t, r.queue.point.blocks(h), "%v waits where nobody is in its way", h.owner)
		require.Same(t, r.queue.point.entry, s.table.locks[r.queue.point.entry.lock])
		return
	}
	p := r.queue.behind
	require.True(t, p.overdue && p.holder.pending == p && p.arrival < r.arrival)
	require.False(t, s.waitsFor(p, h), "%v is kept behind %v, which waits for it", h.owner, p.Owner)
}

func inspectTable(t require.TestingT, table *Table) {
	type at struct {
		lock Lock
		spot int
	}
	want := map[at]map[Owner]int{}
	put := func(l Lock, spot int, o Owner) {
		if want[at{l, spot}] == nil {
			want[at{l, spot}] = map[Owner]int{}
		}
		want[at{l, spot}][o]++
	}
	for o, h := range table.holders {
		require.Equal(t, len(h.held), h.greatestFirst.Len())
		for l, held := range h.held {
			require.False(t, l.Compare(h.greatestFirst.First().lock) > 0)
			put(l, atLock, o)
			if held.mode == Exclusive {
				put(l, atLockExclusive, o)
			}
			for _, g := range table.implied(l) {
				put(g, atMembers, o)
				if held.mode == Exclusive {
					put(g, atMembersExclusive, o)
				}
			}
		}
	}
	found := 0
	for l, e := range table.locks {
		used := false
		for k := range e.points {
			sp := &e.points[k]
			used = used || len(sp.owners)+len(sp.reservations)+sp.waiters.heap.Len() > 0
			for n, r := range sp.reservations {
				require.True(t, r.overdue && r.holder.pending == r, "a claim of %v", r.Owner)
				require.True(t, n == 0 || sp.reservations[n-1].arrival < r.arrival, "claims in order of arrival")
			}
			if len(sp.owners) == 0 {
				continue
			}
			found++
			got := map[Owner]int{}
			for h, n := range sp.owners {
				got[h.owner] = n
			}
			require.Equal(t, want[at{l, k}], got, "owners at %v", l)
		}
		require.True(t, used, "%v is known for nothing", l)
	}
	require.Equal(t, len(want), found)
}
