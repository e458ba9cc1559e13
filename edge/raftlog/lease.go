package raftlog

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// lease is the time for which this node is certain to be the only leader.
//
// A node that has acknowledged an AppendEntries of this leader votes for no other node
// until it has not heard from the leader for its heartbeat timeout. So no other node can be
// elected for that time after a majority was sent the requests that it has acknowledged.
// The lease is shorter than that time, also where the leader has shortened both (times.go). Raft's VerifyLeader is not enough: it also
// counts an answer to a request that was sent long before.
//
// The one exception is a transfer of leadership, for which nodes vote at once. They do so only
// after the leader has granted its vote, and the lease ends before that vote leaves the leader
// (transfer.go).
type lease struct {
	duration  time.Duration // of a term for which shorten was not called
	recent    time.Duration // age up to which an acknowledgement shows that a node is reachable
	self      raft.ServerID
	voters    func() []raft.ServerID
	onRenewed func(until time.Duration)
	onLapsed  func(lasted time.Duration) // the lease was over for that long, and this node leads still

	mu    sync.Mutex
	term  uint64        // in which this node leads; 0: it does not lead
	began time.Duration // when term did; CLOCK_BOOTTIME
	voted uint64        // the highest term in which this node has voted for another; no lease in a lower term
	acks  map[raft.ServerID]ack
	until time.Duration // CLOCK_BOOTTIME

	shortTerm uint64        // the last term for which shorten was called; 0: none
	short     time.Duration // the duration of the lease in that term
}

// ack is the last request that a node has acknowledged: its term, and when it was sent.
type ack struct {
	term uint64
	sent time.Duration
}

func newLease(c *Config, voters func() []raft.ServerID) *lease {
	return &lease{
		duration:  c.Timing.Lease,
		recent:    2 * c.Timing.Election,
		self:      raft.ServerID(c.Name),
		voters:    voters,
		onRenewed: c.LeaseRenewed,
		onLapsed: func(lasted time.Duration) {
			c.Log.WithField("duration", lasted).Warn("lease lapsed: no majority has answered in time; jobs that noticed it have ended")
		},
		acks: map[raft.ServerID]ack{},
	}
}

// bootTime is the time of CLOCK_BOOTTIME. Unlike Go's clock it advances while the machine sleeps,
// as the clocks of other nodes do.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("raftlog: no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}

// valid reports whether this node may act as the master at this moment: a majority has answered recently enough. A node that is the only
// voter needs no answer, so its lease holds also where a busy machine delays tick.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until > 0 && bootTime() >= l.until {
		l.extend()
	}
	return l.until > 0 && bootTime() < l.until
}

// begin starts the lease: this node leads in that term. If it has voted in a later term, nothing happens.
func (l *lease) begin(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if term < l.voted {
		return
	}
	if l.term != term {
		l.term, l.began = term, bootTime()
	}
	l.extend()
}

// inForce is the duration of the lease in the term in which this node leads. The caller holds the mutex.
func (l *lease) inForce() time.Duration {
	if l.term == l.shortTerm {
		return l.short
	}
	return l.duration
}

// shorten makes the lease in a term last only for d after each contact to a majority, from now until the leadership in that term ends. A
// longer d than before has no effect.
func (l *lease) shorten(term uint64, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case term < l.shortTerm:
		return
	case term == l.shortTerm:
		d = min(d, l.short)
	}
	l.shortTerm, l.short = term, min(d, l.duration)
	if l.term != term || l.until == 0 {
		return
	}
	since, ok := l.majorityContact(bootTime())
	switch until := since + l.short; {
	case !ok:
		l.revoke()
	case until < l.until:
		l.until = until
		l.onRenewed(until)
	}
}

// cede ends the lease of any term before the given one, in which this node votes for another.
func (l *lease) cede(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voted = max(l.voted, term)
	if l.term < l.voted {
		l.term = 0
		l.revoke()
	}
}

// end revokes the lease, because this node does not lead any longer.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = 0
	l.revoke()
}

// acknowledged records that a node has acknowledged a request, with its term and the time
// at which it was sent.
func (l *lease) acknowledged(by raft.ServerID, term uint64, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Answers may come out of order. An earlier contact must not replace a later one.
	if old := l.acks[by]; term < old.term || term == old.term && sent <= old.sent {
		return
	}
	l.acks[by] = ack{term: term, sent: sent}
	l.extend()
}

// tick extends the lease of a node that is the only voter, and bounds the map of
// acknowledgements, which may have some of former voters.
func (l *lease) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extend()
	if len(l.acks) > 64 {
		clear(l.acks) // the next heartbeats fill it again
	}
}

// heardRecently reports whether that node has acknowledged a recent request of this term, as
// a running and reachable node does.
func (l *lease) heardRecently(id raft.ServerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.acks[id]
	return l.term != 0 && last.term == l.term && bootTime()-last.sent < l.recent
}

// silentFor is for how long a node has acknowledged no request of this term; 0 for a node that has acknowledged none of any term, and on a
// node that does not lead.
func (l *lease) silentFor(id raft.ServerID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.acks[id]
	switch {
	case l.term == 0 || !known:
		return 0
	case last.term != l.term:
		return bootTime() - l.began
	}
	return bootTime() - last.sent
}

func (l *lease) revoke() {
	if l.until != 0 {
		l.until = 0
		l.onRenewed(0)
	}
}

func (l *lease) extend() {
	now := bootTime()
	if l.term == 0 {
		return
	}
	since, ok := l.majorityContact(now)
	if until := since + l.inForce(); ok && until > l.until && until > now {
		if l.until > 0 && l.until < now && since < now { // since is now on a node that is the only voter
			l.onLapsed(now - l.until)
		}
		l.until = until
		l.onRenewed(until)
	}
}

// majorityContact returns the latest time t such that a majority of the voters has acknowledged, in this term, requests sent at t or
// later; false if fewer have acknowledged any.
func (l *lease) majorityContact(now time.Duration) (time.Duration, bool) {
	voters := l.voters()
	times := make([]time.Duration, 0, len(voters))
	for _, id := range voters {
		if id == l.self {
			times = append(times, now)
		} else if a, known := l.acks[id]; known && a.term == l.term {
			times = append(times, a.sent)
		}
	}
	majority := len(voters)/2 + 1
	if len(voters) == 0 || len(times) < majority {
		return 0, false
	}
	slices.Sort(times)
	return times[len(times)-majority], true
}
