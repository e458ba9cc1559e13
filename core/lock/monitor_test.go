package lock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A real cluster gave this answer while job 4966 ran, and 4967 and 4968 waited for its node.
func TestMonitorRowsAreThoseOfTheCapture(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	node := Member(Node, "0cc05bf1-82ef-4855-817e-293b0390c127")
	for _, id := range []int{4966, 4967, 4968} {
		_, err := s.TryUpdate(epoch, jobOwner(id), Request{{BGL, Shared}})
		require.NoError(t, err)
		_, err = s.UpdateWaiting(epoch, Pending{0, jobOwner(id), Request{{node, Exclusive}}})
		require.NoError(t, err)
	}
	rows := s.MonitorRows()
	require.Equal(t, []MonitorRow{
		{Lock: Group(Cluster)},
		{Lock: BGL, Mode: Shared, Owners: []Owner{jobOwner(4966), jobOwner(4967), jobOwner(4968)}},
		{Lock: Group(Node)},
		{Lock: node, Mode: Exclusive, Owners: []Owner{jobOwner(4966)}, Pending: []MonitorWaiter{{Exclusive, jobOwner(4967)}, {Exclusive, jobOwner(4968)}}},
	}, rows)
	slices.SortFunc(rows, CompareNames)
	var names []string
	for _, r := range rows {
		names = append(names, r.Lock.String())
	}
	require.Equal(t, []string{"cluster/BGL", "cluster/[lockset]", node.String(), "node/[lockset]"}, names)
}

// A request may mention a lock that it only releases, or twice.
func TestMonitorRowsOfWhatIsOnlyMentioned(t *testing.T) {
	s := New(Settings{Hierarchy: Implied})
	a, b, c := Member(Node, "a"), Member(Node, "b"), Member(Node, "c")
	_, err := s.TryUpdate(epoch, jobOwner(1), Request{{a, Exclusive}})
	require.NoError(t, err)
	_, err = s.UpdateWaiting(epoch, Pending{0, jobOwner(2), Request{{a, Shared}, {a, Shared}, {b, None}, {c, Shared}}})
	require.NoError(t, err)
	require.Equal(t, []MonitorRow{
		{Lock: Group(Node)},
		{Lock: a, Mode: Exclusive, Owners: []Owner{jobOwner(1)}, Pending: []MonitorWaiter{{Shared, jobOwner(2)}}},
		{Lock: b},
		{Lock: c, Pending: []MonitorWaiter{{Shared, jobOwner(2)}}},
	}, s.MonitorRows())
}
