package consensus

import (
	"maps"
	"slices"
	"time"

	"lockstep/core/replication"
	"lockstep/messages"
	"lockstep/sim/kernel"
)

type role uint8

const (
	roleFollower role = iota
	roleLeader
)

// Active is the part of a replica that ends with its daemon.
type Active struct {
	*Replica
	life   *kernel.Lifetime
	thread *kernel.Thread // runs the functions of the log
	bridge *bridge

	syncFailed bool   // Sync has failed
	former     uint64 // index of the last entry when the daemon started

	role        role
	leader      string
	leaderHeard time.Time // time of the last message of a leader
	electionDue time.Time // time of the next election
	noVoteUntil time.Time // the node may have promised before not to vote
	commit      uint64

	times    replication.Times // of the term declared
	declared uint64            // the highest term with a declaration; 0: none
	followed uint64            // the highest term of whose leader it has acknowledged a request, or applied a declaration

	// The following fields are those of the leader.
	peers        map[string]*peer
	waiting      map[uint64]uint64  // numbers of proposals, by index
	barrier      uint64             // LogLeadershipGained is sent when this index is applied
	announced    bool               // LogLeadershipGained was sent
	leaseUntil   time.Time          // end of the lease
	changes      []membershipChange // of membership; the first is in progress
	pendingIndex uint64             // index of the first change's entry; 0: none yet
	transferTo   string             // to which node the leadership goes; "": none
	ordered      bool               // transferTo was told to start an election
}

// peer is what the leader knows of another node.
type peer struct {
	next, match uint64
	acked       time.Time // when the last acknowledged request was sent
	since       time.Time // since when the node counts as reachable
	busy        time.Time // a request is in transit until then, and counts as lost afterwards
}

// Run starts the log of a daemon. founded says that this node has had no log before.
func (r *Replica) Run(l *kernel.Lifetime, founded bool, to Sender) *Active {
	n := &Active{Replica: r, life: l, former: r.Last(), thread: kernel.NewThread(r.consensus.kernel, l)}
	r.Active = n
	n.commit = r.snapshot.index
	n.bridge = newBridge(n, to)
	now := r.consensus.clock.Now()
	n.leaderHeard = now
	if !founded {
		n.noVoteUntil = now.Add(replication.Lease)
	}
	n.postpone()
	n.ticks(time.Duration(r.consensus.rng.Int64N(int64(n.pause()))))
	return n
}

// End ends the running log with its daemon.
func (r *Replica) End() { r.Active = nil }

func (n *Active) now() time.Time { return n.consensus.clock.Now() }

// postpone sets the time of the next election to the shortest timeout from now.
func (n *Active) postpone() {
	n.electionDue = n.now().Add(n.heartbeat() + time.Duration(n.consensus.rng.Int64N(int64(n.heartbeat()))))
}

// takesPart reports whether the node takes part in the protocol. It does nothing while its files
// are being restored.
func (n *Active) takesPart() bool { return n.restoring == nil || n.bridge.restoredWhileActive }

func (n *Active) ticks(first time.Duration) {
	n.consensus.clock.AfterIdle(first, n.life, func() {
		if n.takesPart() {
			n.tick()
		}
		n.ticks(n.pause())
	})
}

func (n *Active) tick() {
	if n.role == roleLeader {
		if n.majorityContact(func(p *peer) time.Time { return latest(p.acked, p.since) }).Add(n.lease(n.term)).Before(n.now()) {
			n.stepDown("has lost contact to a majority")
			return
		}
		n.extendLease()
		n.broadcast()
		return
	}
	if n.leader != "" && n.leaderHeard.Add(n.heartbeat()).Before(n.now()) {
		n.leader = ""
		n.bridge.sendLeader()
	}
	if n.restoring == nil && n.Voter(n.name) && !n.now().Before(n.electionDue) && !n.now().Before(n.noVoteUntil) {
		n.postpone()
		n.startElection()
	}
}

// startElection asks for pre-votes, and for votes when a majority would vote for this node.
func (n *Active) startElection() {
	n.collectVotes(ballot{term: n.term + 1, pre: true}, n.voters(), func() { n.elect("") })
}

// elect starts an election. A leader that has ordered it is asked first. After that leader has
// granted its vote, which ends its lease, the other nodes vote at once.
func (n *Active) elect(orderedBy string) {
	n.term++
	n.votedFor, n.leader = n.name, ""
	b := ballot{term: n.term, called: orderedBy != ""}
	won := func() {
		if n.term == b.term && n.role == roleFollower {
			n.win()
		}
	}
	voters := n.voters()
	if !b.called || n.consensus.Mutations.OrderSuffices {
		n.collectVotes(b, voters, won)
		return
	}
	n.ask(orderedBy, b, func() {
		b.votes = 1
		n.collectVotes(b, slices.DeleteFunc(voters, func(name string) bool { return name == orderedBy }), won)
	})
}

// ballot is what a candidate asks for: votes in a term, pre-votes for it, or votes at once because
// a leader has ordered the election.
type ballot struct {
	term   uint64
	pre    bool
	called bool
	votes  int // votes of others that the candidate has already
}

// voters are the names of the other nodes that have a vote.
func (n *Active) voters() (names []string) {
	for _, m := range n.Members() {
		if m.Voter && m.Name != n.name {
			names = append(names, m.Name)
		}
	}
	return names
}

// collectVotes asks the voters, and calls won once, when a majority has voted for this node.
func (n *Active) collectVotes(b ballot, voters []string, won func()) {
	votes := 1 + b.votes
	if votes >= n.majority() {
		won()
		return
	}
	for _, name := range voters {
		n.ask(name, b, func() {
			if votes++; votes == n.majority() {
				won()
			}
		})
	}
}

// ask asks a node for its vote, and calls granted if it votes for this node while that counts.
func (n *Active) ask(name string, b ballot, granted func()) {
	candidate, last, lastTerm := n.name, n.Last(), n.termAt(n.Last())
	n.rpc(name, 0, func(other *Replica) func() {
		votes, at := other.Active.vote(candidate, b, last, lastTerm)
		return func() {
			switch {
			case at > n.term && !b.pre:
				n.newTerm(at)
			case votes && (b.pre && n.term+1 == b.term || !b.pre && n.term == b.term) && n.role == roleFollower:
				granted()
			}
		}
	})
}

// vote answers a candidate whether this node votes for it, with the term of the voter.
func (n *Active) vote(candidate string, b ballot, last, lastTerm uint64) (granted bool, at uint64) {
	stranger := len(n.Members()) > 0 && !n.Voter(candidate)
	if b.term < n.term || stranger || n.now().Before(n.noVoteUntil) {
		return false, n.term
	}
	content := n.role == roleLeader || n.leader != "" && n.now().Before(n.leaderHeard.Add(n.heartbeat()))
	if content && !b.called {
		return false, n.term
	}
	behind := lastTerm < n.termAt(n.Last()) || lastTerm == n.termAt(n.Last()) && last < n.Last()
	if b.pre {
		return !behind, n.term
	}
	if b.term > n.term {
		n.newTerm(b.term)
	}
	if behind || n.votedFor != "" && n.votedFor != candidate {
		return false, n.term
	}
	n.votedFor = candidate
	n.leaderHeard = n.now()
	n.postpone()
	return true, n.term
}

// newTerm begins a later term, in which this node does not lead and has not voted.
func (n *Active) newTerm(term uint64) {
	n.term, n.votedFor = term, ""
	n.leader = ""
	if n.role == roleLeader {
		n.stepDown("hears of a later term")
	} else {
		n.bridge.sendLeader()
	}
}

func (n *Active) win() {
	n.consensus.Tracef("%s is elected in term %d", n.name, n.term)
	n.role, n.leader, n.announced = roleLeader, n.name, false
	n.peers, n.waiting = map[string]*peer{}, map[uint64]uint64{}
	n.changes, n.pendingIndex, n.transferTo, n.ordered = nil, 0, "", false
	n.leaseUntil = time.Time{}
	n.add(entry{})
	n.barrier = n.Last()
	n.broadcast()
}

// stepDown ends the leadership. The outcome of its proposals is unknown.
func (n *Active) stepDown(why string) {
	n.consensus.Tracef("%s leads no more in term %d: it %s", n.name, n.term, why)
	n.role, n.announced, n.leader = roleFollower, false, ""
	n.endLease()
	n.postpone()
	n.bridge.sendLeader()
	for _, index := range slices.Sorted(maps.Keys(n.waiting)) {
		n.bridge.send(&messages.LogRefused{Number: n.waiting[index], Unknown: true, Failure: logFailure("leadership was lost")})
	}
	n.waiting = nil
	n.abandonChanges()
}

// add appends an entry to the leader's own log, and commits what a majority has.
func (n *Active) add(e entry) {
	e.term = n.term
	n.log = append(n.log, e)
	if e.members != nil {
		n.bridge.sendMembers()
	}
	n.count()
}

// peer returns the leader's state about a node, and creates it if it is missing.
func (n *Active) peer(name string) *peer {
	p := n.peers[name]
	if p == nil {
		p = &peer{next: n.Last() + 1, since: n.now()}
		n.peers[name] = p
	}
	return p
}

func (n *Active) broadcast() {
	for _, m := range n.Members() {
		if m.Name != n.name {
			n.send(m.Name)
		}
	}
}

// send sends a node the entries that it lacks, or an empty request, or a snapshot if the log lacks them. While an answer is open it does
// nothing.
func (n *Active) send(name string) {
	p := n.peer(name)
	if n.now().Before(p.busy) {
		return
	}
	if p.next <= n.base {
		n.sendSnapshot(name, p)
		return
	}
	p.busy = n.now().Add(appendAnswer)
	before := p.next - 1
	beforeTerm, term, commit, sent, leader := n.termAt(before), n.term, n.commit, n.now(), n.name
	entries := slices.Clone(n.log[before-n.base:])
	entries = entries[:min(len(entries), appendMost)]
	n.rpc(name, 0, func(other *Replica) func() {
		ok, at, hint := other.Active.append(leader, term, before, beforeTerm, entries, commit)
		return func() { n.answered(name, p, term, sent, ok, at, hint) }
	})
}

// append handles a request at the follower. at is its term. hint is the last entry that it shares
// with the leader, or else may share.
func (n *Active) append(leader string, term, before, beforeTerm uint64, entries []entry, commit uint64) (ok bool, at, hint uint64) {
	if term < n.term {
		return false, n.term, 0
	}
	n.heardLeader(leader, term)
	if before > n.Last() {
		return false, n.term, n.Last()
	}
	if before < n.base { // entries in a snapshot are committed
		skip := min(n.base-before, uint64(len(entries)))
		before, entries = before+skip, entries[skip:]
		if before < n.base {
			return true, n.term, before
		}
	} else if n.termAt(before) != beforeTerm {
		return false, n.term, before - 1
	}
	for i, e := range entries {
		index := before + 1 + uint64(i)
		if index <= n.Last() && n.termAt(index) == e.term {
			continue
		}
		if index <= n.commit {
			n.truncate(index)
		}
		n.log = append(n.log[:index-n.base-1:index-n.base-1], e)
	}
	n.bridge.sendMembers()
	match := before + uint64(len(entries))
	n.commitTo(min(commit, match))
	return true, n.term, match
}

// truncate removes entries, even committed ones, which only the mutation Hasty makes possible.
func (n *Active) truncate(index uint64) {
	if !n.consensus.Mutations.Hasty {
		panic("sim: the log takes back what was committed")
	}
	n.commit = index - 1
	n.bridge.sentThrough = min(n.bridge.sentThrough, n.commit)
}

// heardLeader records the leader of a term, from whom a message has come, and puts the next election off.
func (n *Active) heardLeader(leader string, term uint64) {
	if term > n.term {
		n.newTerm(term)
	}
	n.followed = max(n.followed, term)
	n.leaderHeard = n.now()
	n.postpone()
	if n.leader != leader {
		n.leader = leader
		n.bridge.sendLeader()
	}
}

// answered handles a follower's answer: it extends the lease, commits what a majority has, and sends what the follower lacks.
func (n *Active) answered(name string, p *peer, term uint64, sent time.Time, ok bool, at, hint uint64) {
	if at > n.term {
		n.newTerm(at)
		return
	}
	if n.role != roleLeader || n.term != term || n.peers[name] != p {
		return
	}
	p.busy = time.Time{}
	if sent.After(p.acked) {
		p.acked = sent
	}
	n.extendLease()
	if ok {
		p.match = max(p.match, hint)
		p.next = p.match + 1
		n.count()
		n.tryTransfer()
	} else {
		p.next = hint + 1 // even if it had more before: its disk may be new
	}
	if p.next <= n.Last() {
		n.send(name)
	}
}

// count commits what a majority has, if it is an entry of this term.
func (n *Active) count() {
	for index := n.Last(); index > n.commit && n.termAt(index) == n.term; index-- {
		have := 0
		for _, m := range n.Members() {
			if m.Voter && (m.Name == n.name || n.peer(m.Name).match >= index) {
				have++
			}
		}
		if have >= n.majority() {
			n.consensus.commit(n, index)
			n.commitTo(index)
			break
		}
	}
	if n.consensus.Mutations.Hasty {
		n.commitTo(n.Last())
	}
}

// commit commits everything up to an index of the leader's log.
func (c *Log) commit(leader *Active, index uint64) {
	for c.committedIndex < index {
		c.committedIndex++
		c.Committed(c.committedIndex, leader.at(c.committedIndex).data)
	}
}

func (n *Active) commitTo(index uint64) {
	for ; n.commit < index; n.commit++ {
		next := n.commit + 1
		delete(n.waiting, next)
		if n.role == roleLeader && next == n.pendingIndex {
			n.changeDone(nil)
		}
	}
	n.bridge.sendCommitted()
}
