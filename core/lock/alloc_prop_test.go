package lock

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func (t *Table) clone() *Table {
	again := NewTable(t.implied)
	for _, o := range t.Holders() {
		blockers, err := again.Update(o, t.Held(o))
		if err != nil || len(blockers) > 0 {
			panic("a table cannot be made again")
		}
	}
	return again
}

func (t *Table) all() []Holding {
	var all []Holding
	for _, o := range t.Holders() {
		all = append(all, Holding{o, t.Held(o)})
	}
	return all
}

// locks.md 8A.1, 8A.6 and 8A.7
func TestExclusiveIsExclusive(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		inspectTable(t, table)
		for _, a := range table.all() {
			for _, b := range table.all() {
				if a.Owner == b.Owner {
					continue
				}
				for _, i := range a.Locks {
					if i.Mode == Exclusive {
						require.Equal(t, None, table.Mode(b.Owner, i.Lock), "8A.1")
					}
					for _, g := range d.hierarchy(i.Lock) {
						require.NotEqual(t, Exclusive, table.Mode(b.Owner, g), "8A.6")
						require.False(t, i.Mode == Exclusive && table.Mode(b.Owner, g) > None, "8A.7")
					}
				}
			}
		}
	})
}

// locks.md 8A.2 to 8A.5, and 8A.15
func TestListsAgreeWithHoldings(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		locks := table.Locks()
		require.True(t, slices.IsSortedFunc(locks, Lock.Compare))
		for _, h := range table.all() {
			require.NotEmpty(t, h.Locks, "8A.15")
			for _, i := range h.Locks {
				require.Contains(t, locks, i.Lock, "8A.2")
				require.Contains(t, table.Owners(i.Lock), OwnerMode{h.Owner, i.Mode}, "8A.4")
			}
		}
		for _, l := range d.locks {
			for _, claim := range table.Owners(l) {
				require.Contains(t, locks, l, "8A.3")
				require.GreaterOrEqual(t, table.Mode(claim.Owner, l), claim.Mode, "8A.5")
			}
		}
	})
}

// locks.md 8A.8, 8A.9 and 8A.10
func TestUpdateIsWholeAndChangesNobodyElse(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		before := table.clone()
		o, req := drawOwner(t, 3), drawRequest(t, d, 4)
		blockers, err := table.Update(o, req)
		inspectTable(t, table)
		for id := range 3 {
			if other := jobOwner(id); other != o {
				require.Equal(t, before.Held(other), table.Held(other), "8A.8")
			}
		}
		if err != nil || len(blockers) > 0 {
			require.Equal(t, before.all(), table.all(), "8A.9")
		} else {
			for _, i := range req {
				require.Equal(t, i.Mode, table.Mode(o, i.Lock), "8A.9")
			}
		}
		blockers, err = table.Update(o, Request{{drawLock(t, d), None}})
		require.NoError(t, err, "8A.10")
		require.Empty(t, blockers, "8A.10")
	})
}

// locks.md 8A.11
func TestBlockersSuffice(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		o := drawOwner(t, 3)
		req := Request{{drawLock(t, d), Mode(rapid.IntRange(1, 2).Draw(t, "mode"))}}
		blockers, err := table.Update(o, req)
		if err != nil {
			return
		}
		for _, b := range blockers {
			table.ReleaseAll(b)
		}
		blockers, err = table.Update(o, req)
		require.NoError(t, err)
		require.Empty(t, blockers)
		inspectTable(t, table)
	})
}

// locks.md 8A.12
func TestBlockersAreNecessary(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		o := drawOwner(t, 3)
		req := Request{{drawLock(t, d), Exclusive}}
		if second := drawLock(t, d); second != req[0].Lock {
			req = rapid.SampledFrom([]Request{req, {{req[0].Lock, Shared}, {second, Shared}}}).Draw(t, "request")
		}
		blockers, err := table.Update(o, req)
		if err != nil || len(blockers) < 2 {
			return
		}
		stays := rapid.SampledFrom(blockers).Draw(t, "stays")
		for _, b := range blockers {
			if b != stays {
				table.ReleaseAll(b)
			}
		}
		blockers, err = table.Update(o, req)
		require.NoError(t, err)
		require.Equal(t, []Owner{stays}, blockers)
	})
}

// locks.md 8A.13 and 8A.14
func TestAllocationRoundTripsAndEnds(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		table := drawTable(t, d)
		snap, err := Decode(Encode(Snapshot{Holdings: table.all()}))
		require.NoError(t, err)
		s, _, err := Restore(Settings{Hierarchy: d.hierarchy}, epoch, snap)
		require.NoError(t, err)
		require.Equal(t, table.all(), s.Allocation().all(), "8A.13")
		for _, o := range table.Holders() {
			table.ReleaseAll(o)
		}
		require.Empty(t, table.holders, "8A.14")
		require.Empty(t, table.locks, "8A.14")
	})
}

// locks.md 8A.16
func TestRequestRoundTrips(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		req := drawRequest(t, d, 4)
		data, err := json.Marshal(req)
		require.NoError(t, err)
		var again Request
		require.NoError(t, json.Unmarshal(data, &again))
		require.Equal(t, req, again)
	})
}
