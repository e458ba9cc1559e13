// Package consensus simulates the consensus log of a cluster, on the time and steps of package
// kernel: raft's contract without its bytes. It has terms, pre-votes, majorities, leases,
// snapshots, changes of membership and transfers of the leadership.
//
// A Log connects the Replicas of all nodes. A Replica is what a node has on its disk: it
// survives the node's daemon. While a daemon runs, an Active replica is its replicator.Log.
// The package passes the conformance suite of the real log, edge/raftlog/logconformance.
package consensus

import (
	"math/rand/v2"
	"slices"
	"time"

	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/sim/kernel"
)

// Log is the consensus log of a cluster: raft without its bytes. A message between nodes arrives
// after a delay, in any order, or is lost. The rest follows the paper, with pre-votes, leases and
// snapshots.
type Log struct {
	// Mutations are the promises that the log breaks.
	Mutations Mutations
	// Tracef adds a line to the trace.
	Tracef func(format string, args ...any)
	// Partitioned reports whether two nodes cannot reach each other.
	Partitioned func(a, b string) bool
	// Delay is the additional delay of a node's messages, each way.
	Delay func(name string) time.Duration
	// Committed is called once for each index, in order, when a majority has the entry. data is
	// nil for an entry that is no proposal.
	Committed func(index uint64, data []byte)

	kernel         *kernel.Kernel
	clock          *kernel.Clock
	rng            *rand.Rand
	replicas       []*Replica // by name
	committedIndex uint64     // index of the last committed entry
	latestArrival  time.Time  // of a message between nodes
}

// Mutations break promises of a consensus log, to test the checkers.
type Mutations struct {
	// AlwaysLeads: Leads is true on every node.
	AlwaysLeads bool
	// Hasty: the leader counts entries as committed that only it has.
	Hasty bool
	// Skips: the node of this name does not get every seventh entry.
	Skips string
	// OrderSuffices: a node that was told to start an election asks all nodes at once, and they vote
	// before the leader has ended its lease.
	OrderSuffices bool
	// NotesFirst: a node records a snapshot two seconds before it syncs the files.
	NotesFirst bool
	// ServesEarly: a leader serves before it has applied its log.
	ServesEarly bool
	// OwnTimes: a node uses the shortest heartbeat timeout that it knows, whatever lease the leader has.
	OwnTimes bool
}

// As in lockstepd and raft, except that raft ticks more often.
const (
	appendAnswer  = 500 * time.Millisecond // after which a request counts as lost
	transferMax   = replication.ElectionMin
	appendMost    = 32 // entries in a request
	snapshotEvery = 24 // least number of entries; the most is four times as many
	Trailing      = 12 // entries kept before a snapshot
	partFiles     = 4  // files in a part of a snapshot
)

// entry is an entry of the log: with data a proposal, with members a change of membership that
// holds from this entry on. An entry without both begins a term.
type entry struct {
	term    uint64
	data    []byte
	members []*messages.Member
}

// Replica is the part of the log that a node has on its disk.
type Replica struct {
	// Address is the node's address, for the members.
	Address string
	// Files returns the current files of the application.
	Files func() []*messages.FileWrite
	// Sync makes durable all files of the application. After an error the running log calls it no more, takes no
	// snapshot, and calls Failed once, after which the daemon ends.
	Sync   func() error
	Failed func(error)
	// Noting is called after Sync and before a snapshot of an index is recorded. After an error the snapshot is not recorded.
	Noting func(index uint64) error
	// Renewed is called with the end of the node's lease when that changes; zero: no lease.
	Renewed func(until time.Time)
	// Times are the shortest times of elections that the node's program knows.
	Times replication.Times
	// Active is the running log; nil while no daemon runs.
	Active *Active

	consensus *Log
	name      string
	term      uint64
	votedFor  string
	base      uint64 // index before the first entry of log
	baseTerm  uint64 // its term
	log       []entry
	snapshot  snapshotMeta
	// restoring are the files of a received snapshot that is not restored yet.
	restoring []*messages.FileWrite
}

// snapshotMeta is the latest snapshot of a node, without its files, which are the application's.
type snapshotMeta struct {
	index, term uint64
	state       []byte
	members     []*messages.Member
}

// NewLog makes a log without nodes.
func NewLog(s *kernel.Kernel, c *kernel.Clock, rng *rand.Rand) *Log {
	return &Log{kernel: s, clock: c, rng: rng, Tracef: func(string, ...any) {}, Committed: func(uint64, []byte) {},
		Partitioned: func(string, string) bool { return false }, Delay: func(string) time.Duration { return 0 }}
}

// NewReplica adds a node, which does not run yet.
func (c *Log) NewReplica(name string) *Replica {
	r := &Replica{
		consensus: c,
		name:      name,
		Address:   name + ":1",
		Renewed:   func(time.Time) {},
		Sync:      func() error { return nil },
		Failed:    func(error) {},
		Noting:    func(uint64) error { return nil },
		Times:     replication.InitialTimes(),
	}
	c.replicas = append(c.replicas, r)
	return r
}

// CommittedIndex is the index of the last committed entry.
func (c *Log) CommittedIndex() uint64 { return c.committedIndex }

// latestTerm is the highest term in which a node leads; 0: none leads.
func (c *Log) latestTerm() (term uint64) {
	for _, r := range c.replicas {
		if r.Active != nil && r.Active.role == roleLeader {
			term = max(term, r.term)
		}
	}
	return term
}

// Replica returns a node's replica; nil if there is none.
func (c *Log) Replica(name string) *Replica {
	at := slices.IndexFunc(c.replicas, func(r *Replica) bool { return r.name == name })
	if at < 0 {
		return nil
	}
	return c.replicas[at]
}

// Found creates the log with these members and no entry.
func (r *Replica) Found(members []*messages.Member) {
	r.term, r.base, r.baseTerm = 1, 1, 1
	r.snapshot = snapshotMeta{index: 1, term: 1, members: members}
	r.consensus.committedIndex = max(r.consensus.committedIndex, 1)
}

// Wipe removes everything of the log from the node's disk.
func (r *Replica) Wipe() {
	r.term, r.votedFor, r.base, r.baseTerm, r.log, r.snapshot, r.restoring = 0, "", 0, 0, nil, snapshotMeta{}, nil
}

// Restoring reports whether a received snapshot is not restored yet.
func (r *Replica) Restoring() bool { return r.restoring != nil }

// Fresh reports whether the node has had no log yet.
func (r *Replica) Fresh() bool { return r.base == 0 }

// Last is the index of the last entry.
func (r *Replica) Last() uint64 { return r.base + uint64(len(r.log)) }

// termAt is the term of an entry in the log, or of the one before the first.
func (r *Replica) termAt(index uint64) uint64 {
	if index == r.base {
		return r.baseTerm
	}
	return r.log[index-r.base-1].term
}

func (r *Replica) at(index uint64) entry { return r.log[index-r.base-1] }

// Members are the members of the latest entry about them, committed or not.
func (r *Replica) Members() []*messages.Member { return r.membersAt(r.Last()) }

func (r *Replica) membersAt(index uint64) []*messages.Member {
	for i := index; i > max(r.base, r.snapshot.index); i-- {
		if m := r.at(i).members; m != nil {
			return m
		}
	}
	return r.snapshot.members
}

// Voter reports whether a node has a vote.
func (r *Replica) Voter(name string) bool {
	return slices.ContainsFunc(r.Members(), func(m *messages.Member) bool { return m.Name == name && m.Voter })
}

// majority is the number of voters that is a majority, as this node knows them.
func (r *Replica) majority() int { return replication.Voters(r.Members())/2 + 1 }

// Compact takes a snapshot, and drops the entries before it but for the last Trailing. If entries wait to be applied, or the disk fails,
// it does nothing.
func (r *Replica) Compact() {
	d := r.Active.bridge
	if d.applied <= r.snapshot.index || len(d.entries) > 0 || !r.Active.synced() || r.Noting(d.applied) != nil {
		return
	}
	r.snapshot = snapshotMeta{index: d.applied, term: r.termAt(d.applied), state: d.state, members: r.membersAt(d.applied)}
	if r.snapshot.index > r.base+Trailing {
		r.dropThrough(r.snapshot.index - Trailing)
	}
}

// synced makes everything that is applied durable, and reports whether it is. A sync that has failed is not repeated.
func (n *Active) synced() bool {
	if n.syncFailed {
		return false
	}
	if n.consensus.Mutations.NotesFirst {
		n.consensus.clock.After(2*time.Second, n.life, func() { _ = n.Sync() })
		return true
	}
	if err := n.Sync(); err != nil {
		n.syncFailed = true
		n.consensus.clock.After(0, n.life, func() { n.Failed(err) })
	}
	return !n.syncFailed
}

func (r *Replica) dropThrough(index uint64) {
	r.baseTerm, r.log = r.termAt(index), slices.Clone(r.log[index-r.base:])
	r.base = index
}

// rpc sends a request to a node and its answer back. handle runs on the other node. The function
// that it returns runs on this node, unless it is nil.
func (r *Replica) rpc(to string, slow time.Duration, handle func(other *Replica) (answer func())) {
	c := r.consensus
	here := r.Active
	c.deliver(r.name, to, slow, func(other *Replica) {
		answer := handle(other)
		if answer == nil {
			return
		}
		c.deliver(to, r.name, 0, func(*Replica) {
			if r.Active == here {
				answer()
			}
		})
	})
}

// deliver delivers a message to a node after a delay. It is lost if the node does not run then, or is cut off.
func (c *Log) deliver(from, to string, slow time.Duration, arrive func(*Replica)) {
	other := c.Replica(to)
	if other == nil || other.Active == nil || c.Partitioned(from, to) {
		return
	}
	d := slow + c.Delay(from) + c.Delay(to) + time.Duration(100+c.rng.IntN(3000))*time.Microsecond
	life := other.Active.life
	c.latestArrival = latest(c.latestArrival, c.clock.Now().Add(d))
	c.clock.After(d, life, func() {
		if !c.Partitioned(from, to) && other.Active != nil && other.Active.life == life && other.Active.takesPart() {
			arrive(other)
		}
	})
}
