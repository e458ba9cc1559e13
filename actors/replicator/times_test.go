package replicator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/replication"
	"lockstep/messages"
)

func (b *bench) stateTimes(name string, t replication.Times) {
	b.Helper()
	b.admit(&messages.AdmitNode{Request: 1, Name: name, Address: addressOf(name), Voting: true, HeartbeatMs: t.Heartbeat.Milliseconds()})
}

// declarations are the declarations among the proposals since the last call. They are committed.
func (b *bench) declarations() (found []*messages.ElectionTimes) {
	for _, o := range b.log.take() {
		if o.entry.Times != nil {
			found = append(found, o.entry.Times)
		}
		b.log.commit(o.entry)
	}
	b.Settle()
	return found
}

// set returns the times that were set, and the number of proposals.
func (c *consensus) set() (times []declared, offers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.times), c.offers
}

// A master declares shorter times when all members know them, and shortens its lease before.
func TestTheMasterDeclaresTimesThatAllMembersKnow(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		require.Empty(t, b.declarations())
		b.stateTimes("n2", shortTimes)
		b.stateTimes("n3", replication.InitialTimes())
		b.stateTimes("n9", shortTimes)
		require.Empty(t, b.declarations(), "n3 does not know them")
		set, _ := b.log.set()
		require.Empty(t, set)
		b.stateTimes("n3", replication.Times{Heartbeat: 300 * time.Millisecond})
		b.Settle()
		_, offers := b.log.set()
		d := b.declarations()
		require.Len(t, d, 1)
		require.Equal(t, []string{"n1", "n2", "n3"}, d[0].Names)
		require.Equal(t, b.log.term, d[0].Term)
		stated, ok := replication.DeclaredTimes(d[0])
		require.True(t, ok)
		require.Equal(t, shortTimes, stated)
		set, _ = b.log.set()
		require.Equal(t, declared{b.log.term, shortTimes, offers - 1}, set[0], "the lease is shorter before the declaration is proposed")
		require.Equal(t, declared{b.log.term, shortTimes, offers}, set[1], "it is applied")
		b.stateTimes("n2", shortTimes)
		require.Len(t, b.declarations(), 1, "n2 lacks the declaration")
	})
}

// A member of an older version keeps the times as they are until it is removed or upgraded.
func TestAnOlderMemberKeepsTheTimes(t *testing.T) {
	onMaster(t, nil, func(t *testing.T, b *bench) {
		b.stateTimes("n2", shortTimes)
		b.admit(&messages.AdmitNode{Request: 1, Name: "n3", Address: addressOf("n3"), Voting: true})
		require.Empty(t, b.declarations())
		b.Send(b.replicator, &messages.LogMembersChanged{Members: members("n1", "n2")})
		require.Len(t, b.declarations(), 1)
	})
}

// A new master knows from the declaration of the former one what the members know, also of a member that does not answer.
func TestTimesOutliveTheMaster(t *testing.T) {
	onBench(t, nil, func(t *testing.T, b *bench) {
		b.log.commit(&messages.LogEntry{Origin: "u2", Incarnation: "x", Number: 1, Times: replication.Declaration(7, shortTimes, []string{"n1", "n2", "n3"})},
			&messages.LogEntry{Origin: "u2", Incarnation: "x", Number: 2, Times: &messages.ElectionTimes{Term: 8, HeartbeatMs: 100, LeaseMs: 200}})
		b.Settle()
		set, _ := b.log.set()
		require.Equal(t, []declared{{7, shortTimes, 0}}, set, "the second one has no sense")
		b.log.lead("n1")
		require.Len(t, b.declarations(), 1)
	})
}
