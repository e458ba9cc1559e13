package raftlog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

// Entries that arrive together share an append, its sync and its message to the other nodes.
func TestEntriesThatArriveTogetherShareAnAppend(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	const proposed = 2000
	c := newCluster(t)
	c.lasting()
	leader, others := c.threeNodes(t)
	type counts struct{ entries, appends uint64 }
	written := func(r *recorder) (n counts) { n.entries, n.appends = r.log.Written(); return n }
	all := append(others, leader)
	var before []counts
	for _, r := range all {
		before = append(before, written(r))
	}
	for i := range proposed {
		leader.log.Propose(uint64(10+i), fmt.Appendf(nil, "entry %d", i))
	}
	last := fmt.Sprint("entry ", proposed-1)
	for i, r := range all {
		c.Until("it has all entries", func() bool { return r.has(last) })
		after := written(r)
		entries, appends := after.entries-before[i].entries, after.appends-before[i].appends
		require.GreaterOrEqual(t, entries, uint64(proposed))
		require.Less(t, appends, entries/4, "appends")
		t.Logf("%d entries in %d appends", entries, appends)
	}
}
