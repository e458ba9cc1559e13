package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockstep/core/replication"
)

// electionTimes chooses the heartbeat timeout of this node, for which it votes for no other node after a message of a leader.
//
// The leader of each term begins with the lease of Config.Timing. It may shorten its lease until its leadership ends, and declare this
// in the log. Only while a node follows that leader in that term is its heartbeat timeout the declared one: another leader, of an older
// version perhaps, has its own lease. The node goes back to the timeout of Config.Timing before raft sees, and so before it
// acknowledges, the first request of another term. So the heartbeat timeout of each node is longer than the lease of the leader that it
// has acknowledged last, whatever the versions of the others are.
//
// Nothing of it survives a restart: a node that starts waits for the longest lease (Open), has acknowledged no leader since, and
// finds the declaration of the current term in the log, or asks for another.
type electionTimes struct {
	initial  time.Duration // heartbeat timeout without a declaration
	election time.Duration // election timeout without a declaration; with one, it is the heartbeat timeout
	shortest time.Duration // heartbeat timeout that no declaration goes below

	mu       sync.Mutex
	raft     *raft.Raft // nil: it does not run yet
	followed uint64     // the highest term of whose leader raft may have acknowledged a request, or has applied a declaration
	declared uint64     // the highest term with a declaration
	timeout  time.Duration
	current  time.Duration // the heartbeat timeout of raft
}

func newElectionTimes(c *Config) *electionTimes {
	return &electionTimes{
		initial:  c.Timing.Heartbeat,
		election: c.Timing.Election,
		shortest: c.Shortest.Heartbeat,
		current:  c.Timing.Heartbeat,
	}
}

// follow prepares this node for a request of the leader of a term. Raft gets the request afterwards.
func (e *electionTimes) follow(term uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term > e.followed {
		e.followed = term
		e.reload()
	}
}

// declare takes a declaration of the leader of a term: the heartbeat timeout of the nodes that follow it. One of an earlier term is
// ignored.
func (e *electionTimes) declare(term uint64, timeout time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if term < e.declared {
		return
	}
	e.declared, e.timeout = term, min(e.initial, max(e.shortest, timeout))
	e.followed = max(e.followed, term)
	e.reload()
}

// start sets raft, which has just been started with the initial timeout.
func (e *electionTimes) start(r *raft.Raft) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.raft = r
	e.reload()
}

// heartbeat returns the heartbeat timeout in force: without a sign of the leader for so long, this node starts an election.
func (e *electionTimes) heartbeat() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current
}

// reload gives raft the heartbeat timeout that applies: the declared one in the term of its leader, else the initial one. The caller
// holds the mutex.
func (e *electionTimes) reload() {
	wanted := e.initial
	if e.declared == e.followed && e.declared > 0 {
		wanted = e.timeout
	}
	if e.raft == nil || wanted == e.current {
		return
	}
	conf := e.raft.ReloadableConfig()
	conf.HeartbeatTimeout, conf.ElectionTimeout = wanted, wanted
	if wanted == e.initial {
		conf.ElectionTimeout = e.election
	}
	if err := e.raft.ReloadConfig(conf); err != nil {
		panic("raftlog: the heartbeat timeout cannot be changed: " + err.Error()) // Config was checked
	}
	e.current = wanted
}

// look makes a follower look at once whether its leader is overdue: raft does so when its heartbeat timeout becomes shorter.
func (e *electionTimes) look() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raft == nil {
		return
	}
	conf := e.raft.ReloadableConfig()
	longer := conf
	longer.HeartbeatTimeout += time.Millisecond
	longer.ElectionTimeout += time.Millisecond
	for _, c := range []raft.ReloadableConfig{longer, conf} {
		if err := e.raft.ReloadConfig(c); err != nil {
			panic("raftlog: the heartbeat timeout cannot be changed: " + err.Error()) // Config was checked
		}
	}
}

// SetTimes is part of [replicator.Log]. It shortens the lease of this node as the leader of a term, and then the heartbeat timeout.
func (l *Log) SetTimes(term uint64, t replication.Times) {
	l.lease.shorten(term, t.Lease)
	l.times.declare(term, t.Heartbeat)
}

// HeartbeatTimeout is how long this node waits at present for a message of the leader before it starts an election.
func (l *Log) HeartbeatTimeout() time.Duration { return l.times.heartbeat() }
