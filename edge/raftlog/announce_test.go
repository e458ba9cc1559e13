package raftlog_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/replicator"
	"lockstep/edge/raftlog"
	"lockstep/edge/raftlog/logconformance"
	"lockstep/messages"
	"lockstep/sim/longtest"
)

// threeNodes starts a leader and two voters that have its log.
func (c *cluster) threeNodes(t testing.TB) (leader *recorder, others []*recorder) {
	leader = c.startSole(t)
	for n := range uint64(2) {
		name := fmt.Sprintf("n%d", n+2)
		other := c.startRecorder(name, logconformance.Options{Files: noFiles})
		leader.log.Change(n+1, replicator.Change{What: messages.ChangeNodes_ADD_VOTER, Name: name, Address: c.Address(name)})
		c.Until("it is added", func() bool { m, ok := lastOf[*messages.LogChangeResult](leader); return ok && m.Number == n+1 })
		leader.log.Propose(n+1, []byte(name))
		c.Until("it has the log", func() bool { return other.has(name) })
		others = append(others, other)
	}
	return leader, others
}

// isUrgent makes entries urgent that begin with u.
func isUrgent(entry []byte) bool { return entry[0] == 'u' }

// The other nodes have applied an urgent entry soon after the leader. They learn of the commit of another entry by the next message of
// the leader, 50 to 100 ms later.
func TestUrgentEntriesAreAppliedSooner(t *testing.T) {
	longtest.Skip(t)
	c := newCluster(t)
	c.urgent, c.timing = isUrgent, raftlog.Timing{}
	leader, others := c.threeNodes(t)
	lags := map[byte][]time.Duration{}
	for i := range 30 {
		entry := fmt.Sprintf("%c%d", "pu"[i%2], i)
		leader.log.Propose(uint64(10+i), []byte(entry))
		c.Until("the leader has applied "+entry, func() bool { return leader.has(entry) })
		begin := time.Now()
		c.Until("the others have applied "+entry, func() bool { return others[0].has(entry) && others[1].has(entry) })
		lags[entry[0]] = append(lags[entry[0]], time.Since(begin))
	}
	median := func(kind byte) time.Duration { slices.Sort(lags[kind]); return lags[kind][len(lags[kind])/2] }
	t.Logf("medians: %v for urgent entries, %v for others", median('u'), median('p'))
	require.Less(t, median('u'), median('p'))
}

// An empty entry follows an urgent one, and no other. Urgent entries that are committed together share empty ones.
func TestAnEmptyEntryFollowsUrgentOnes(t *testing.T) {
	c := newCluster(t)
	c.urgent = isUrgent
	leader := c.startSole(t)
	committed := func() uint64 { _, index := leader.log.State(); return index }
	propose := func(entry string) {
		leader.log.Propose(1, []byte(entry))
		c.Until(entry+" is applied", func() bool { return leader.has(entry) })
	}
	propose("p")
	before := committed()
	for i := range uint64(5) {
		propose(fmt.Sprint("p", i))
		require.Equal(t, before+i+1, committed())
	}
	for i := range uint64(5) {
		propose(fmt.Sprint("u", i))
		c.Until("an empty entry follows", func() bool { return committed() == before+5+2*(i+1) })
	}
	before = committed()
	const together = 200
	for i := range uint64(together) {
		leader.log.Propose(10+i, fmt.Appendf(nil, "u of many %d", i))
	}
	c.Until("all are applied", func() bool { return leader.count() >= 11+together })
	c.Until("an empty entry follows", func() bool { return committed() > before+together })
	require.Less(t, committed(), before+2*together)
	require.NoError(t, leader.log.Close(), "also while empty entries are on their way")
}

// A follower that applies an urgent entry appends no empty entry.
func TestFollowersAppendNothing(t *testing.T) {
	longtest.Skip(t)
	c := newCluster(t)
	c.urgent = isUrgent
	leader, others := c.threeNodes(t)
	_, before := leader.log.State()
	leader.log.Propose(10, []byte("u"))
	c.Until("all have applied it", func() bool { return leader.has("u") && others[0].has("u") && others[1].has("u") })
	c.Until("the empty entry is committed everywhere", func() bool {
		_, first := others[0].log.State()
		_, second := others[1].log.State()
		return first == before+2 && second == before+2
	})
	leader.log.Propose(11, []byte("p"))
	c.Until("all have applied it", func() bool { return leader.has("p") && others[0].has("p") && others[1].has("p") })
	_, after := leader.log.State()
	require.Equal(t, before+3, after)
}

// BenchmarkUrgent measures what urgency costs: entries are proposed one after another or 64 at a time to three nodes, urgent ones and
// others in turn, so that the load of the machine is the same for both. The metric ratio is the time of urgent entries divided by that
// of others.
func BenchmarkUrgent(b *testing.B) {
	for _, under := range []int{1, 64} {
		b.Run(fmt.Sprintf("proposed=%d", under), func(b *testing.B) {
			c := newCluster(b)
			c.urgent, c.timing = isUrgent, raftlog.Timing{}
			leader, _ := c.threeNodes(b)
			var spent [2]time.Duration
			for round := range 2*b.N + 2 {
				begin, before := time.Now(), leader.count()
				for block := 0; block < blockMax; block += under {
					for i := range under {
						leader.log.Propose(uint64(100+i), append([]byte{"pu"[round%2]}, make([]byte, 1499)...))
					}
					applied := make(chan struct{})
					leader.mu.Lock()
					want := before + block + under
					leader.done = func(string) {
						if len(leader.entries) == want {
							close(applied)
						}
					}
					if len(leader.entries) >= want {
						leader.done = nil
						close(applied)
					}
					leader.mu.Unlock()
					<-applied
				}
				if round >= 2 { // the first two rounds warm up
					spent[round%2] += time.Since(begin)
				}
			}
			b.ReportMetric(float64(spent[1])/float64(spent[0]), "ratio")
			b.ReportMetric(spent[0].Seconds()*1e3/float64(b.N*blockMax), "ms/other")
			b.ReportMetric(spent[1].Seconds()*1e3/float64(b.N*blockMax), "ms/urgent")
		})
	}
}

// blockMax is the number of entries in a round.
const blockMax = 64
