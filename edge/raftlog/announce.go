package raftlog

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// announceLook is the pause between two looks whether this node still leads.
const announceLook = 10 * time.Millisecond

// announcer records which commits the other nodes know of. Its methods may be called from any goroutine.
type announcer struct {
	self   raft.ServerID
	voters func() []raft.ServerID

	mu      sync.Mutex
	known   map[raft.ServerID]uint64                     // the index up to which a node knows that entries are committed
	changed chan struct{}                                // closed at the next change of known
	telling map[raft.ServerID]*raft.AppendEntriesRequest // the next request to a node that is being told; nil: none after the present one
}

func newAnnouncer(c *Config, voters func() []raft.ServerID) *announcer {
	return &announcer{self: raft.ServerID(c.Name), voters: voters, known: map[raft.ServerID]uint64{}, changed: make(chan struct{}),
		telling: map[raft.ServerID]*raft.AppendEntriesRequest{}}
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

// begin takes the next request to a node. It reports whether the caller must send it: else another goroutine does.
func (a *announcer) begin(to raft.ServerID, request *raft.AppendEntriesRequest) (mine bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, isTold := a.telling[to]
	a.telling[to] = request
	return !isTold
}

// next returns the request that must be sent to a node now; nil: there is none, and the caller ends.
func (a *announcer) next(to raft.ServerID) *raft.AppendEntriesRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	request := a.telling[to]
	if a.telling[to] = nil; request == nil {
		delete(a.telling, to)
	}
	return request
}

// announce returns when a majority of the voters knows that the urgent ones of these entries are committed. If this node is the leader
// it tells all nodes at once. It also returns when this node does not lead, and after Timing.Heartbeat. It runs before the entries are
// applied here, so that no client hears of a change that the death of this node would hide.
func (l *Log) announce(entries []*raft.Log) {
	r := l.raft.Load()
	if l.config.Urgent == nil || r == nil || r.State() != raft.Leader {
		return
	}
	var last *raft.Log
	for _, e := range entries {
		if e.Type == raft.LogCommand && l.config.Urgent(e.Data) {
			last = e
		}
	}
	if last == nil {
		return
	}
	if known, _ := l.announcer.isKnown(last.Index); known {
		return
	}
	l.tellAll(r, last)
	l.awaitKnown(r, last.Index)
}

// tellAll sends the other nodes a request that says that an entry is committed. It is one of raft's requests without entries: the node
// accepts it if it has the entry. Raft itself sends it with the next entry, or up to 100 ms later.
func (l *Log) tellAll(r *raft.Raft, committed *raft.Log) {
	term := r.CurrentTerm()
	if r.State() != raft.Leader || r.CurrentTerm() != term { // so this node is the leader of that term
		return
	}
	self := raft.ServerID(l.config.Name)
	request := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax,
			ID:              []byte(self),
			Addr:            l.transport.EncodePeer(self, l.transport.LocalAddr()),
		},
		Term:              term,
		PrevLogEntry:      committed.Index,
		PrevLogTerm:       committed.Term,
		LeaderCommitIndex: committed.Index,
	}
	for _, server := range r.GetConfiguration().Configuration().Servers {
		if server.ID != self && l.announcer.begin(server.ID, request) {
			go l.tell(server.ID, server.Address)
		}
	}
}

// tell sends a node its requests, one after another. A failed one is not repeated: raft's own next one tells of the commit too.
func (l *Log) tell(id raft.ServerID, address raft.ServerAddress) {
	for {
		request := l.announcer.next(id)
		if request == nil {
			return
		}
		var answer raft.AppendEntriesResponse
		_ = l.transport.AppendEntries(id, address, request, &answer)
	}
}

// awaitKnown waits until a majority knows that the entry with this index is committed, while this node leads, and for one heartbeat
// timeout at most.
func (l *Log) awaitKnown(r *raft.Raft, index uint64) {
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
