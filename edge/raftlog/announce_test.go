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

// lasting makes a leader lead until it ends: on a busy machine nodes are silent for longer than the times of other tests.
func (c *cluster) lasting() { c.timing = raftlog.Timing{} }

// threeNodes starts a leader and two voters that have its log.
func (c *cluster) threeNodes(t testing.TB) (leader *recorder, others []*recorder) {
	leader = c.startSole(t)
	for n := range uint64(2) {
		others = append(others, c.addVoter(leader, n+1, fmt.Sprintf("n%d", n+2)))
	}
	return leader, others
}

// addVoter starts a node, and adds it.
func (c *cluster) addVoter(leader *recorder, number uint64, name string) *recorder {
	added := c.startRecorder(name, logconformance.Options{Files: noFiles})
	c.follow(leader, added, number, name)
	return added
}

// follow adds a node, and proposes an entry with its name. The entry is proposed after the node has a snapshot, since
// the snapshot of a new node may contain what was proposed before.
func (c *cluster) follow(leader, added *recorder, number uint64, name string) {
	leader.log.Change(number, replicator.Change{What: messages.ChangeNodes_ADD_VOTER, Name: name, Address: c.Address(name)})
	c.Until("it is added", func() bool { m, ok := lastOf[*messages.LogChangeResult](leader); return ok && m.Number == number })
	c.Until("it has a snapshot", func() bool { _, ok := lastOf[*messages.LogSnapshotReceived](added); return ok })
	c.proposeUntil([]*recorder{leader, added}, number, name, func() bool { return added.has(name) })
}

// proposeUntil proposes an entry at the node that leads, and again after a refusal: a busy machine delays messages, and the nodes elect
// another leader.
func (c *cluster) proposeUntil(nodes []*recorder, number uint64, entry string, done func() bool) {
	c.Helper()
	var at *recorder
	c.Until("it has the log", func() bool {
		if at != nil {
			if r, refused := lastOf[*messages.LogRefused](at); !refused || r.Number != number {
				return done()
			}
			at, number = nil, number+1000
		}
		for _, w := range nodes {
			if at == nil && w.log.Leads() {
				at = w
				at.log.Propose(number, []byte(entry))
			}
		}
		return done()
	})
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

// When the leader applies an urgent entry, another node knows that it is committed.
func TestUrgentEntriesAreKnownBeforeTheLeaderAppliesThem(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t)
	c.urgent = isUrgent
	c.lasting()
	leader, others := c.threeNodes(t)
	committed := func(r *recorder) uint64 { _, index := r.log.State(); return index }
	unknown := make(chan string, 1000)
	leader.mu.Lock()
	leader.done = func(entry string) {
		if isUrgent([]byte(entry)) && committed(others[0]) < leader.index && committed(others[1]) < leader.index {
			unknown <- entry
		}
	}
	leader.mu.Unlock()
	propose := func(number uint64, entry string) {
		leader.log.Propose(number, []byte(entry))
		c.Until("all have applied "+entry, func() bool { return leader.has(entry) && others[0].has(entry) && others[1].has(entry) })
	}
	for i := range uint64(50) {
		propose(10+i, fmt.Sprint("u", i))
	}
	for i := range uint64(200) {
		leader.log.Propose(100+i, fmt.Appendf(nil, "u of many %d", i))
	}
	propose(400, "p")
	require.Empty(t, unknown)

	c.Isolate("n3") // the others are a majority
	leader.log.Propose(500, []byte("u without n3"))
	c.Until("two have applied it", func() bool { return leader.has("u without n3") && others[0].has("u without n3") })
	require.Empty(t, unknown)
}

// The log grows by the entries that are proposed, whether they are urgent or not.
func TestUrgencyAppendsNothing(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t)
	c.urgent = isUrgent
	c.lasting()
	leader, others := c.threeNodes(t)
	committed := func(want uint64) func() bool {
		return func() bool {
			for _, r := range append([]*recorder{leader}, others...) {
				if _, index := r.log.State(); index != want {
					return false
				}
			}
			return true
		}
	}
	_, before := leader.log.State()
	for i := range uint64(5) {
		leader.log.Propose(10+i, fmt.Append(nil, "p", i))
		c.Until("it is committed everywhere", committed(before+i+1))
	}
	for i := range uint64(5) {
		leader.log.Propose(20+i, fmt.Append(nil, "u", i))
		c.Until("it is committed everywhere", committed(before+6+i))
	}
}

// A node that is alone waits for no other.
func TestUrgentEntriesOfANodeThatIsAlone(t *testing.T) {
	c := newCluster(t)
	c.urgent = isUrgent
	sole := c.startSole(t)
	for i := range uint64(5) {
		sole.log.Propose(i, fmt.Append(nil, "u", i))
	}
	c.Until("all are applied", func() bool { return sole.has("u4") })
}

// A leader that loses the others while it tells them of a commit can be closed.
func TestALeaderIsClosedWhileItTellsOfACommit(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	c := newCluster(t)
	c.urgent = isUrgent
	c.lasting()
	leader, _ := c.threeNodes(t)
	for i := range uint64(100) {
		leader.log.Propose(10+i, fmt.Append(nil, "u", i))
	}
	c.Until("some are applied", func() bool { return leader.has("u0") })
	c.Isolate("n1")
	require.NoError(t, leader.log.Close())
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
