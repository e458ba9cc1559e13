package replicator_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/replicator"
	"lockstep/messages"
)

// lastView returns the last NodePublished to the monitor.
func (b *bench) lastView() *replicator.NodePublished {
	b.Helper()
	b.Settle()
	var found *replicator.NodePublished
	for _, m := range b.observer.Unread() {
		found = m.(*replicator.NodePublished)
	}
	require.NotNil(b, found)
	return found
}

func TestTheObserverHearsOfEachChange(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.lead("n2")
		v := b.lastView()
		require.Equal(t, []any{"n1", "n2", false, uint64(0)}, []any{v.Self, v.Leader, v.Master, v.Term})
		require.Len(t, v.Members, 3)
		b.become()
		v = b.lastView()
		require.Equal(t, []any{"n1", true, b.log.term}, []any{v.Leader, v.Master, v.Term})
		b.log.commit(entry(elsewhere, "queue/job-7", "x"))
		require.Equal(t, b.log.index, b.lastView().Applied)
		b.Send(b.replicator, &messages.GetNodes{})
		b.Settle()
		b.observer.Quiet() // a question changes nothing
		b.Send(b.replicator, &replicator.PublishNode{})
		require.Equal(t, b.log.index, kittest.Expect[*replicator.NodePublished](b.observer).Applied)
	})
}
