package raftlog

import (
	"errors"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"lockstep/messages"
)

var (
	errClosed     = errors.New("the log is being closed")
	errReattached = errors.New("another actor is attached: the snapshot begins again")
)

// bridge is where raft's goroutines meet the actor that is attached. News are sent by
// one goroutine, in the order in which they came about.
type bridge struct {
	system   *actor.ActorSystem
	wakeup   chan struct{} // news are queued; capacity 1
	shutDown chan struct{} // nothing is delivered any more, and nobody waits
	drained  chan struct{} // the last news are sent

	mu         sync.Mutex
	receiver   *actor.PID    // nil: nobody
	reattached chan struct{} // closed when another is attached
	outbox     []envelope
	draining   bool

	members      []*messages.Member
	leaderRole   *messages.LogLeads // nil: it does not
	followerRole *messages.LogFollows

	// Entries are handed over in batches; the next one comes when all of this one
	// are on the disk.
	unapplied  []*messages.CommittedEntry // that are not
	allApplied chan struct{}              // closed when they are
	applied    uint64                     // the last one that is
	state      []byte                     // what the application remembers, at applied

	part        uint64        // of a snapshot, that is not on the disk; 0: none
	partApplied chan struct{} // closed when it is
}

type envelope struct {
	receiver *actor.PID
	message  proto.Message
}

func newBridge(system *actor.ActorSystem) *bridge {
	return &bridge{
		system: system, followerRole: &messages.LogFollows{},
		wakeup: make(chan struct{}, 1), shutDown: make(chan struct{}), drained: make(chan struct{}),
		reattached: make(chan struct{}),
	}
}

// run sends the news until the end.
func (b *bridge) run() {
	defer close(b.drained)
	for range b.wakeup {
		b.mu.Lock()
		envelopes, ended := b.outbox, b.draining
		b.outbox = nil
		b.mu.Unlock()
		for _, e := range envelopes {
			b.system.Root.Send(e.receiver, e.message)
		}
		if ended {
			return
		}
	}
}

// shutdown has nobody wait for the actor any more.
func (b *bridge) shutdown() { close(b.shutDown) }

// drain sends what is left, and nothing after that.
func (b *bridge) drain() {
	b.mu.Lock()
	b.draining = true
	b.wake()
	b.mu.Unlock()
	<-b.drained
}

// enqueue queues a message for the actor. The lock is held.
func (b *bridge) enqueue(message proto.Message) {
	if b.receiver == nil || b.draining {
		return
	}
	b.outbox = append(b.outbox, envelope{receiver: b.receiver, message: message})
	b.wake()
}

func (b *bridge) wake() {
	select {
	case b.wakeup <- struct{}{}:
	default:
	}
}

// send tells the actor something that nobody remembers.
func (b *bridge) send(message proto.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueue(message)
}

// attach has all news go to that actor. led is whether this node leads, which the actor
// is told when it has everything that was committed before.
func (b *bridge) attach(receiver *actor.PID, incarnation uint32) (led bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.receiver, b.outbox = receiver, nil
	if led = b.leaderRole != nil; led {
		b.leaderRole, b.followerRole = nil, &messages.LogFollows{}
	}
	close(b.reattached)
	b.reattached = make(chan struct{})
	b.enqueue(&messages.LogAttached{Applied: b.applied, State: b.state, Incarnation: incarnation})
	b.enqueue(&messages.LogMembers{Members: b.members})
	b.enqueueRole()
	if len(b.unapplied) > 0 {
		b.enqueue(&messages.LogCommitted{Entries: b.unapplied})
	}
	return led
}

func (b *bridge) enqueueRole() {
	if b.leaderRole != nil {
		b.enqueue(b.leaderRole)
	} else {
		b.enqueue(b.followerRole)
	}
}

// setMembers tells of the membership if it is another one.
func (b *bridge) setMembers(members []*messages.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	equal := slices.EqualFunc(b.members, members, func(a, b *messages.Member) bool { return proto.Equal(a, b) })
	if !equal {
		b.members = members
		b.enqueue(&messages.LogMembers{Members: members})
	}
}

// becomeLeader says that this node leads.
func (b *bridge) becomeLeader(term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaderRole = &messages.LogLeads{Term: term}
	b.enqueueRole()
}

// becomeFollower says that this node leads no more, and who does.
func (b *bridge) becomeFollower(leader, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	follows := &messages.LogFollows{Leader: leader, Address: address}
	if b.leaderRole != nil || !proto.Equal(b.followerRole, follows) {
		b.leaderRole, b.followerRole = nil, follows
		b.enqueueRole()
	}
}

// isLeader is whether LogLeads is the last word.
func (b *bridge) isLeader() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaderRole != nil
}

// apply hands entries over and waits until they are on the disk. Else it says from
// which index on they may not be.
func (b *bridge) apply(entries []*messages.CommittedEntry) (from uint64, err error) {
	select {
	case <-b.shutDown:
		return entries[0].Index, errClosed
	default:
	}
	b.mu.Lock()
	b.unapplied, b.allApplied = entries, make(chan struct{})
	onDisk := b.allApplied
	b.enqueue(&messages.LogCommitted{Entries: entries})
	b.mu.Unlock()
	select {
	case <-onDisk:
		return 0, nil
	case <-b.shutDown:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.unapplied) == 0 {
		return 0, nil
	}
	from = b.unapplied[0].Index
	b.unapplied = nil
	return from, errClosed
}

// advanceApplied: entries up to that index are on the disk, of those handed over.
func (b *bridge) advanceApplied(index uint64, state []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rest, _ := slices.BinarySearchFunc(b.unapplied, index, func(e *messages.CommittedEntry, index uint64) int {
		if e.Index <= index {
			return -1
		}
		return 1
	})
	if rest == 0 {
		return
	}
	b.applied, b.state = b.unapplied[rest-1].Index, state
	b.unapplied = b.unapplied[rest:]
	if len(b.unapplied) == 0 {
		close(b.allApplied)
	}
}

// appState is the application's memory as of the last entry that it was given.
func (b *bridge) appState() (state []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.shutDown:
		// Entries may have been passed over since.
		return nil, errClosed
	default:
		return b.state, nil
	}
}

// setAppState is what a snapshot says of the application.
func (b *bridge) setAppState(index uint64, state []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied, b.state = index, state
}

// awaitAttached waits until an actor is, and returns a channel that is closed when it is
// another one.
func (b *bridge) awaitAttached() (changed chan struct{}, err error) {
	for {
		b.mu.Lock()
		to, changed := b.receiver, b.reattached
		b.mu.Unlock()
		if to != nil {
			return changed, nil
		}
		select {
		case <-changed:
		case <-b.shutDown:
			return nil, errClosed
		}
	}
}

// restorePart hands a part of a snapshot to that actor and waits until it is on the disk.
func (b *bridge) restorePart(reattached chan struct{}, part *messages.LogRestore) error {
	b.mu.Lock()
	if b.reattached != reattached {
		b.mu.Unlock()
		return errReattached
	}
	b.part, b.partApplied = part.Part, make(chan struct{})
	restored := b.partApplied
	b.enqueue(part)
	b.mu.Unlock()
	select {
	case <-restored:
		return nil
	case <-reattached:
		return errReattached
	case <-b.shutDown:
		return errClosed
	}
}

func (b *bridge) markPartApplied(part uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if part != 0 && part == b.part {
		b.part = 0
		close(b.partApplied)
	}
}
