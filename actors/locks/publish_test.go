package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/kittest"
	"lockstep/actors/locks"
)

// last returns the last message to a probe about locks.
func last(p *kittest.Probe) *locks.OwnersPublished {
	var found *locks.OwnersPublished
	for _, m := range p.Unread() {
		if published, is := m.(*locks.OwnersPublished); is {
			found = published
		}
	}
	return found
}

func TestAllOwnersAreToldOnRequest(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.caller(named("tool")).takeLocks("node/a:exclusive")
		b.caller(job(2)).takeLocks("node/b:exclusive")
		b.Settle()
		b.subscriber.Unread()
		b.sched.Unread()
		asker := b.Probe("asker")
		asker.Ask(b.locks, &locks.PublishOwners{})
		m := kittest.Expect[*locks.OwnersPublished](asker)
		require.True(t, m.Complete)
		require.Len(t, m.Records, 2)
		b.subscriber.Quiet()
		b.sched.Quiet()
	})
}

// Subscribers hear of a death before they hear that the locks are free.
func TestDeathsAreTold(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.caller(named("tool")).takeLocks("node/a:exclusive")
		b.Settle()
		owner := last(b.subscriber).Records[0].Owner
		b.sendOwnerDied("/live/tool")
		m := kittest.Expect[*locks.OwnersPublished](b.subscriber)
		require.Equal(t, owner, m.Dead[0])
		require.Empty(t, m.Records)
		freed := kittest.Expect[*locks.OwnersPublished](b.subscriber)
		require.Equal(t, owner, freed.Records[0].Owner)
		require.Empty(t, freed.Records[0].Locks)
	})
}
