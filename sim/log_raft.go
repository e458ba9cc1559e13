package sim

import (
	"slices"
	"time"

	"lockstep/core/replication"
	"lockstep/messages"
)

type role uint8

const (
	follows role = iota
	leads
)

// running is the part of a node that ends with its daemon.
type running struct {
	*replica
	life   *life
	thread *thread // what the log does in the name of its node
	desk   *desk

	role    role
	leader  string
	heard   time.Time // of a leader, last
	due     time.Time // to stand for election
	muteTil time.Time // it may have promised somebody not to vote
	commit  uint64

	// of who leads
	peers   map[string]*peer
	waiting map[uint64]uint64 // numbers of proposals, by index
	barrier uint64            // LogLeads is told when this is applied
	told    bool              // it was
	until   time.Time         // the lease
	lateTil time.Time         // no lease before: somebody else was told to stand for election
	changes []wanted          // of membership; the first is under way
	pending uint64            // index of the first one's entry; 0: none yet
	handing string            // to whom the leadership goes; "": nobody
}

// peer is another node as who leads sees it.
type peer struct {
	next, match uint64
	acked       time.Time // when the last request was sent that it has acknowledged
	since       time.Time // it counts among those that could
	busy        time.Time // a request is on its way, which counts as lost then
}

// run begins what a daemon does of the log. founded: this node has had no log before.
func (r *replica) run(l *life, founded bool, to courier) *running {
	n := &running{replica: r, life: l, thread: newThread(r.of.steps, l)}
	r.runs = n
	n.commit = r.note.index
	n.desk = newDesk(n, to)
	now := r.of.clock.now
	n.heard = now
	if !founded {
		n.muteTil = now.Add(replication.Lease)
	}
	n.postpone()
	n.ticks(time.Duration(r.of.rng.Int64N(int64(logTick))))
	return n
}

// end is that of the daemon.
func (r *replica) end() { r.runs = nil }

func (n *running) now() time.Time { return n.of.clock.now }

// postpone has the next election wait for as long as one does at least.
func (n *running) postpone() {
	n.due = n.now().Add(replication.ElectionMin + time.Duration(n.of.rng.Int64N(int64(replication.ElectionMin))))
}

// takesPart: a node whose files are not in place yet does nothing else.
func (n *running) takesPart() bool { return n.restoring == nil || n.desk.arrived }

func (n *running) ticks(first time.Duration) {
	n.of.clock.after(first, n.life, func() {
		if n.takesPart() {
			n.tick()
		}
		n.ticks(logTick)
	})
}

func (n *running) tick() {
	if n.role == leads {
		if n.contact(func(p *peer) time.Time { return latest(p.acked, p.since) }).Add(replication.Lease).Before(n.now()) {
			n.stepDown("has lost contact to a majority")
			return
		}
		n.extend()
		n.broadcast()
		return
	}
	if n.leader != "" && n.heard.Add(replication.ElectionMin).Before(n.now()) {
		n.leader = ""
		n.desk.follow()
	}
	if n.restoring == nil && n.voter(n.name) && !n.now().Before(n.due) && !n.now().Before(n.muteTil) {
		n.postpone()
		n.stand(false)
	}
}

// stand asks for votes; called is by who leads. Without that a node first asks
// whether it would be elected.
func (n *running) stand(called bool) {
	if called {
		n.elect(true)
		return
	}
	n.ballot(n.term+1, true, false, func() { n.elect(false) })
}

func (n *running) elect(called bool) {
	n.term++
	n.voted, n.leader = n.name, ""
	term := n.term
	n.ballot(term, false, called, func() {
		if n.term == term && n.role == follows {
			n.win()
		}
	})
}

// ballot calls won, once, when a majority is in favour.
func (n *running) ballot(term uint64, pre, called bool, won func()) {
	votes, last, lastTerm := 1, n.last(), n.termAt(n.last())
	if votes >= n.majority() {
		won()
		return
	}
	for _, m := range n.members() {
		if !m.Voter || m.Name == n.name {
			continue
		}
		candidate := n.name
		n.rpc(m.Name, 0, func(other *replica) func() {
			granted, at := other.runs.vote(candidate, term, last, lastTerm, pre, called)
			return func() {
				switch {
				case at > n.term && !pre:
					n.follow(at)
				case granted && (pre && n.term+1 == term || !pre && n.term == term) && n.role == follows:
					if votes++; votes == n.majority() {
						won()
					}
				}
			}
		})
	}
}

// vote is the answer to a candidate, and the term of who gives it.
func (n *running) vote(candidate string, term, last, lastTerm uint64, pre, called bool) (granted bool, at uint64) {
	stranger := len(n.members()) > 0 && !n.voter(candidate)
	if term < n.term || stranger || n.now().Before(n.muteTil) {
		return false, n.term
	}
	content := n.role == leads || n.leader != "" && n.now().Before(n.heard.Add(replication.ElectionMin))
	if content && !called {
		return false, n.term
	}
	behind := lastTerm < n.termAt(n.last()) || lastTerm == n.termAt(n.last()) && last < n.last()
	if pre {
		return !behind, n.term
	}
	if term > n.term {
		n.follow(term)
	}
	if behind || n.voted != "" && n.voted != candidate {
		return false, n.term
	}
	n.voted = candidate
	n.heard = n.now()
	n.postpone()
	return true, n.term
}

// follow takes note of a later term.
func (n *running) follow(term uint64) {
	n.term, n.voted = term, ""
	n.leader = ""
	if n.role == leads {
		n.stepDown("hears of a later term")
	} else {
		n.desk.follow()
	}
}

func (n *running) win() {
	n.of.say("%s is elected in term %d", n.name, n.term)
	n.role, n.leader, n.told = leads, n.name, false
	n.peers, n.waiting = map[string]*peer{}, map[uint64]uint64{}
	n.changes, n.pending, n.handing = nil, 0, ""
	n.until = time.Time{}
	n.add(entry{})
	n.barrier = n.last()
	n.broadcast()
}

// stepDown ends the leadership: what becomes of the proposals nobody knows.
func (n *running) stepDown(why string) {
	n.of.say("%s leads no more in term %d: it %s", n.name, n.term, why)
	n.role, n.told, n.leader = follows, false, ""
	n.endLease()
	n.postpone()
	n.desk.follow()
	for _, index := range sortedKeys(n.waiting) {
		n.desk.say(&messages.LogRefused{Number: n.waiting[index], Unknown: true, Failure: logFailure("leadership was lost")})
	}
	n.waiting = nil
	n.abandonChanges()
}

// add appends an entry to the leader's own log.
func (n *running) add(e entry) {
	e.term = n.term
	n.log = append(n.log, e)
	if e.members != nil {
		n.desk.members()
	}
	n.count()
}

// of another node, as who leads knows it.
func (n *running) peer(name string) *peer {
	p := n.peers[name]
	if p == nil {
		p = &peer{next: n.last() + 1, since: n.now()}
		n.peers[name] = p
	}
	return p
}

func (n *running) broadcast() {
	for _, m := range n.members() {
		if m.Name != n.name {
			n.send(m.Name)
		}
	}
}

// send offers a node what it lacks, or says that there is nothing.
func (n *running) send(name string) {
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
	n.rpc(name, 0, func(other *replica) func() {
		ok, at, hint := other.runs.append(leader, term, before, beforeTerm, entries, commit)
		return func() { n.answered(name, p, term, sent, ok, at, hint) }
	})
}

// append is a follower's: at is its term; hint is the last entry it has like this, or
// else may have.
func (n *running) append(leader string, term, before, beforeTerm uint64, entries []entry, commit uint64) (ok bool, at, hint uint64) {
	if term < n.term {
		return false, n.term, 0
	}
	n.hear(leader, term)
	if before > n.last() {
		return false, n.term, n.last()
	}
	if before < n.base { // what is in a snapshot is committed
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
		if index <= n.last() && n.termAt(index) == e.term {
			continue
		}
		if index <= n.commit {
			n.takeBack(index)
		}
		n.log = append(n.log[:index-n.base-1:index-n.base-1], e)
	}
	n.desk.members()
	match := before + uint64(len(entries))
	n.commitTo(min(commit, match))
	return true, n.term, match
}

// takeBack is what no log does, unless it was hasty.
func (n *running) takeBack(index uint64) {
	if !n.of.plants.Hasty {
		panic("sim: the log takes back what was committed")
	}
	n.commit = index - 1
	n.desk.through = min(n.desk.through, n.commit)
}

// hear takes note of who leads.
func (n *running) hear(leader string, term uint64) {
	if term > n.term {
		n.follow(term)
	}
	n.heard = n.now()
	n.postpone()
	if n.leader != leader {
		n.leader = leader
		n.desk.follow()
	}
}

// answered is what a node says to who leads.
func (n *running) answered(name string, p *peer, term uint64, sent time.Time, ok bool, at, hint uint64) {
	if at > n.term {
		n.follow(at)
		return
	}
	if n.role != leads || n.term != term || n.peers[name] != p {
		return
	}
	p.busy = time.Time{}
	if sent.After(p.acked) {
		p.acked = sent
	}
	n.extend()
	if ok {
		p.match = max(p.match, hint)
		p.next = p.match + 1
		n.count()
		n.handOver()
	} else {
		p.next = hint + 1 // also where it has had more: its disk may be another
	}
	if p.next <= n.last() {
		n.send(name)
	}
}

// count commits what a majority has.
func (n *running) count() {
	for index := n.last(); index > n.commit && n.termAt(index) == n.term; index-- {
		have := 0
		for _, m := range n.members() {
			if m.Voter && (m.Name == n.name || n.peer(m.Name).match >= index) {
				have++
			}
		}
		if have >= n.majority() {
			n.of.decide(n, index)
			n.commitTo(index)
			break
		}
	}
	if n.of.plants.Hasty {
		n.commitTo(n.last())
	}
}

// decide: a majority has everything up to an index of the leader's log.
func (c *consensus) decide(leader *running, index uint64) {
	for c.known < index {
		c.known++
		c.committed(c.known, leader.at(c.known))
	}
}

func (n *running) commitTo(index uint64) {
	for ; n.commit < index; n.commit++ {
		next := n.commit + 1
		delete(n.waiting, next)
		if n.role == leads && next == n.pending {
			n.changed(nil)
		}
	}
	n.desk.feed()
}
