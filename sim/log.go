package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/sim/kernel"
)

// consensus is the consensus log of a cluster: raft without its bytes. A message between nodes
// arrives after a delay, in any order, or is lost. The rest follows the paper, with pre-votes,
// leases and snapshots.
type consensus struct {
	kernel    *kernel.Kernel
	clock     *kernel.Clock
	rng       *rand.Rand
	tracef    func(format string, args ...any)
	mutations LogMutations
	replicas  []*replica // by name
	// partitioned says whether two nodes cannot reach each other.
	partitioned func(a, b string) bool
	// delay is how much longer than others a node's messages take, each way.
	delay func(name string) time.Duration
	// committed is called for each index once, in order, when a majority has it.
	committed      func(index uint64, e entry)
	committedIndex uint64 // the last index that was committed
}

// LogMutations break promises that a consensus log makes. They are for the tests of the
// checkers.
type LogMutations struct {
	// AlwaysLeads: Leads is true on every node.
	AlwaysLeads bool
	// Hasty: who leads takes as committed what only it has.
	Hasty bool
	// Skips: this node does not get every seventh entry.
	Skips string
}

// As in lockstepd and raft, but for the ticks, which raft has more often.
const (
	logTick       = 200 * time.Millisecond
	appendAnswer  = 500 * time.Millisecond      // after which a request counts as lost
	contendMax    = 2 * replication.ElectionMin // for a node that the leader has called to an election
	transferMax   = replication.ElectionMin
	appendMost    = 32 // entries in a request
	snapshotEvery = 24 // entries at least, and up to four times as many
	trailing      = 12 // entries that are kept behind a snapshot
	partFiles     = 4  // files in a part of a snapshot
)

// entry is one of the log: data is a proposal's, members are those from then on; one
// that has neither begins a term.
type entry struct {
	term    uint64
	data    []byte
	members []*messages.Member
}

// replica is what a node has of the log on its disk.
type replica struct {
	consensus     *consensus
	name, address string
	files         func() []*messages.FileWrite // the application's, as they are now
	sync          func() error                 // makes durable what processes have written
	renewed       func(until time.Time)        // the lease

	term     uint64
	votedFor string
	base     uint64 // index before the first entry of log
	baseTerm uint64 // its term
	log      []entry
	snapshot snapshotMeta
	// restoring are the files of a snapshot that has arrived and is not restored.
	restoring []*messages.FileWrite
	active    *activeReplica // nil: no daemon does
}

// snapshotMeta is the latest snapshot of a node, without its files: these are the
// application's.
type snapshotMeta struct {
	index, term uint64
	state       []byte
	members     []*messages.Member
}

func newConsensus(s *kernel.Kernel, c *kernel.Clock, rng *rand.Rand) *consensus {
	return &consensus{kernel: s, clock: c, rng: rng, tracef: func(string, ...any) {}, committed: func(uint64, entry) {},
		partitioned: func(string, string) bool { return false }, delay: func(string) time.Duration { return 0 }}
}

func (c *consensus) newReplica(name string) *replica {
	r := &replica{consensus: c, name: name, address: name + ":1", renewed: func(time.Time) {}, sync: func() error { return nil }}
	c.replicas = append(c.replicas, r)
	return r
}

// latestTerm is the highest in which a node leads; 0: none does.
func (c *consensus) latestTerm() (term uint64) {
	for _, r := range c.replicas {
		if r.active != nil && r.active.role == roleLeader {
			term = max(term, r.term)
		}
	}
	return term
}

func (c *consensus) replica(name string) *replica {
	at := slices.IndexFunc(c.replicas, func(r *replica) bool { return r.name == name })
	if at < 0 {
		return nil
	}
	return c.replicas[at]
}

// found begins a log: these nodes have it, and no entry yet.
func (r *replica) found(members []*messages.Member) {
	r.term, r.base, r.baseTerm = 1, 1, 1
	r.snapshot = snapshotMeta{index: 1, term: 1, members: members}
	r.consensus.committedIndex = max(r.consensus.committedIndex, 1)
}

// wipe takes everything away.
func (r *replica) wipe() {
	r.term, r.votedFor, r.base, r.baseTerm, r.log, r.snapshot, r.restoring = 0, "", 0, 0, nil, snapshotMeta{}, nil
}

func (r *replica) fresh() bool { return r.base == 0 }

func (r *replica) last() uint64 { return r.base + uint64(len(r.log)) }

// termAt is the term of an entry that is there, or of the one before the first.
func (r *replica) termAt(index uint64) uint64 {
	if index == r.base {
		return r.baseTerm
	}
	return r.log[index-r.base-1].term
}

func (r *replica) at(index uint64) entry { return r.log[index-r.base-1] }

// members are those of the latest entry about them, committed or not.
func (r *replica) members() []*messages.Member { return r.membersAt(r.last()) }

func (r *replica) membersAt(index uint64) []*messages.Member {
	for i := index; i > max(r.base, r.snapshot.index); i-- {
		if m := r.at(i).members; m != nil {
			return m
		}
	}
	return r.snapshot.members
}

func (r *replica) voter(name string) bool {
	return slices.ContainsFunc(r.members(), func(m *messages.Member) bool { return m.Name == name && m.Voter })
}

// majority of the voters, as this node knows them.
func (r *replica) majority() int { return replication.Voters(r.members())/2 + 1 }

// compact takes a snapshot, and drops what is before it.
func (r *replica) compact() {
	d := r.active.bridge
	if d.applied <= r.snapshot.index || len(d.entries) > 0 || r.sync() != nil {
		return
	}
	r.snapshot = snapshotMeta{index: d.applied, term: r.termAt(d.applied), state: d.state, members: r.membersAt(d.applied)}
	if r.snapshot.index > r.base+trailing {
		r.dropThrough(r.snapshot.index - trailing)
	}
}

func (r *replica) dropThrough(index uint64) {
	r.baseTerm, r.log = r.termAt(index), slices.Clone(r.log[index-r.base:])
	r.base = index
}

// rpc carries a request to a node and its answer back. handle runs on the other node; what it
// returns runs on this node, unless it is nil.
func (r *replica) rpc(to string, slow time.Duration, handle func(other *replica) (answer func())) {
	c := r.consensus
	here := r.active
	c.deliver(r.name, to, slow, func(other *replica) {
		answer := handle(other)
		if answer == nil {
			return
		}
		c.deliver(to, r.name, 0, func(*replica) {
			if r.active == here {
				answer()
			}
		})
	})
}

// deliver has a message arrive at a node, if it runs then.
func (c *consensus) deliver(from, to string, slow time.Duration, arrive func(*replica)) {
	other := c.replica(to)
	if other == nil || other.active == nil || c.partitioned(from, to) {
		return
	}
	d := slow + c.delay(from) + c.delay(to) + time.Duration(100+c.rng.IntN(3000))*time.Microsecond
	life := other.active.life
	c.clock.After(d, life, func() {
		if !c.partitioned(from, to) && other.active != nil && other.active.life == life && other.active.takesPart() {
			arrive(other)
		}
	})
}
