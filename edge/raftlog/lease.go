package raftlog

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/sys/unix"
)

// lease knows for how long this node is certain to be the only one that leads.
//
// A node that has acknowledged an AppendEntries votes for nobody else until it has
// not heard from this one for Timing.Heartbeat. So from the moment at which the
// requests were sent that a majority has acknowledged, no other can be elected for
// that long, and the lease is shorter than that. What raft's VerifyLeader says
// is not enough: it also counts an answer to a request that was sent long before it.
//
// The one exception is a transfer of leadership, for which nodes vote at once: the
// lease is given up just before another node is told to stand for election.
type lease struct {
	duration        time.Duration
	rpcTimeout      time.Duration // how long a node may take to be told to stand for election
	electionTimeout time.Duration // and to win it
	self            raft.ServerID
	voters          func() []raft.ServerID
	onRenewed       func(until time.Duration)

	mu           sync.Mutex
	term         uint64 // in which this node leads; 0: it does not
	acks         map[raft.ServerID]ack
	until        time.Duration // CLOCK_BOOTTIME
	notBefore    time.Duration // who was told to stand for election may win until then
	transferTerm uint64        // in this term, and has answered; 0: it has not
}

// ack says when the last request was sent that a node has acknowledged.
type ack struct {
	term uint64
	sent time.Duration
}

func newLease(c *Config, voters func() []raft.ServerID) *lease {
	return &lease{
		duration:        c.Timing.Lease,
		rpcTimeout:      c.rpcTimeout(),
		electionTimeout: 2 * c.Timing.Election,
		self:            raft.ServerID(c.Name),
		voters:          voters,
		onRenewed:       c.LeaseRenewed,
		acks:            map[raft.ServerID]ack{},
	}
}

// bootTime goes on while the machine sleeps, unlike Go's: others do not sleep.
func bootTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic("raftlog: no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(now.Nano())
}

// valid is whether the lease still lasts.
func (l *lease) valid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until > 0 && bootTime() < l.until
}

// begin has the lease count, for this node leads in that term.
func (l *lease) begin(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = term
	if l.transferTerm != 0 && term > l.transferTerm+1 {
		l.notBefore = 0 // that election is over: a later one was won here
	}
	l.extend()
}

// end gives the lease up: this node leads no more.
func (l *lease) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = 0
	l.revoke()
}

// acknowledged: a node has acknowledged a request of that term that was sent then.
func (l *lease) acknowledged(by raft.ServerID, term uint64, sent time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.acks[by]; term < old.term || term == old.term && sent <= old.sent {
		return
	}
	l.acks[by] = ack{term: term, sent: sent}
	l.extend()
}

// tick extends the lease of a node that is the only voter, and forgets nodes that
// are none.
func (l *lease) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extend()
	if len(l.acks) > 64 {
		clear(l.acks) // they come back with the next heartbeat
	}
}

// heardRecently: that node has acknowledged a request of this term that was sent not long ago,
// as one does that is up and can be reached.
func (l *lease) heardRecently(id raft.ServerID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.acks[id]
	return l.term != 0 && last.term == l.term && bootTime()-last.sent < l.electionTimeout
}

// beginTransfer: another node is being told to stand for election at once. It may be, and
// win, although the transfer is said to have failed.
func (l *lease) beginTransfer() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transferTerm = 0
	l.notBefore = bootTime() + l.rpcTimeout + l.electionTimeout
	l.revoke()
}

// transferAccepted: that node has answered, in that term of this one, and stands.
func (l *lease) transferAccepted(term uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.transferTerm = term
	l.notBefore = bootTime() + l.electionTimeout
}

func (l *lease) revoke() {
	if l.until != 0 {
		l.until = 0
		l.onRenewed(0)
	}
}

func (l *lease) extend() {
	now := bootTime()
	if l.term == 0 || now < l.notBefore {
		return
	}
	since, ok := l.majorityContact(now)
	if until := since + l.duration; ok && until > l.until && until > now {
		l.until = until
		l.onRenewed(until)
	}
}

// majorityContact is the latest time at or after which requests to a majority of the
// voters were sent that these have acknowledged in this term.
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
