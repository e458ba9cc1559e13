package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

const (
	// announceEnqueueMax is how long an empty entry may wait for its place in the log. Raft is that busy only with other entries, which
	// tell the nodes of the commit too.
	announceEnqueueMax = 10 * time.Millisecond
	// announceLook is the pause between two looks whether this node still leads.
	announceLook = 10 * time.Millisecond
)

// announcer records which commits the other nodes know of. Its methods may be called from any goroutine.
type announcer struct {
	self   raft.ServerID
	voters func() []raft.ServerID

	mu      sync.Mutex
	known   map[raft.ServerID]uint64 // the index up to which a node knows that entries are committed
	changed chan struct{}            // closed at the next change of known
}

func newAnnouncer(c *Config, voters func() []raft.ServerID) *announcer {
	return &announcer{self: raft.ServerID(c.Name), voters: voters, known: map[raft.ServerID]uint64{}, changed: make(chan struct{})}
}

// accepted records that a node has accepted a request. From then on it knows of the commits that the request tells, of entries that
// it has.
func (a *announcer) accepted(by raft.ServerID, request *raft.AppendEntriesRequest) {
	index := min(request.LeaderCommitIndex, request.PrevLogEntry+uint64(len(request.Entries)))
	if index == 0 { // a heartbeat
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if index <= a.known[by] {
		return
	}
	if len(a.known) > 64 {
		clear(a.known) // it may have former voters; the next requests fill it again
	}
	a.known[by] = index
	close(a.changed)
	a.changed = make(chan struct{})
}

// isKnown reports whether a majority of the voters knows that the entries up to an index are committed. changed is closed when that may
// change.
func (a *announcer) isKnown(index uint64) (known bool, changed <-chan struct{}) {
	voters, count := a.voters(), 0
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range voters {
		if id == a.self || a.known[id] >= index {
			count++
		}
	}
	return count > len(voters)/2, a.changed
}

// announce returns when a majority of the voters knows that the urgent ones of these entries are committed. If this node is the leader
// it appends an empty entry, which tells them at once. It also returns when this node does not lead, and after Timing.Heartbeat. It
// runs before the entries are applied here, so that no client hears of a change that the death of this node would hide.
func (l *Log) announce(entries []*messages.CommittedEntry) {
	r := l.raft.Load()
	if l.config.Urgent == nil || r == nil || r.State() != raft.Leader {
		return
	}
	index := uint64(0)
	for _, e := range entries {
		if l.config.Urgent(e.Entry) {
			index = e.Index
		}
	}
	if known, _ := l.announcer.isKnown(index); known {
		return
	}
	r.Barrier(announceEnqueueMax)
	limit, look := time.NewTimer(l.config.Timing.Heartbeat), time.NewTicker(announceLook)
	defer limit.Stop()
	defer look.Stop()
	for r.State() == raft.Leader {
		known, changed := l.announcer.isKnown(index)
		if known {
			return
		}
		select {
		case <-changed:
		case <-look.C:
		case <-limit.C:
			return
		case <-l.closing:
			return
		}
	}
}
