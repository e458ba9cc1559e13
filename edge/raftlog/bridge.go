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

// bridge connects raft's goroutines to the attached actor. One goroutine sends all
// messages to the actor, in the order in which they were queued.
type bridge struct {
	system   *actor.ActorSystem
	wakeup   chan struct{} // the outbox is not empty; capacity 1
	shutDown chan struct{} // closed by shutdown: no goroutine waits for the actor
	drained  chan struct{} // closed when the last message is sent

	mu         sync.Mutex
	receiver   *actor.PID    // the attached actor; nil: none
	reattached chan struct{} // closed when another actor is attached
	outbox     []envelope
	draining   bool

	members      []*messages.Member
	leaderRole   *messages.LogLeadershipGained // nil: this node does not lead
	followerRole *messages.LogLeaderChanged

	// The actor gets committed entries in batches. The next batch follows when the
	// whole of the current one is on the disk.
	unapplied  []*messages.CommittedEntry // the entries of the batch that are not on the disk
	allApplied chan struct{}              // closed when all of the batch are
	applied    uint64                     // index of the last entry that is on the disk
	state      []byte                     // the application's state as of applied

	part        uint64        // the part of a snapshot that is being applied; 0: none
	partApplied chan struct{} // closed when that part is on the disk
}

type envelope struct {
	receiver *actor.PID
	message  proto.Message
}

func newBridge(system *actor.ActorSystem) *bridge {
	return &bridge{
		system: system, followerRole: &messages.LogLeaderChanged{},
		wakeup: make(chan struct{}, 1), shutDown: make(chan struct{}), drained: make(chan struct{}),
		reattached: make(chan struct{}),
	}
}

// run sends the messages of the outbox until drain is called.
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

// shutdown ends all waits for the actor with errClosed.
func (b *bridge) shutdown() { close(b.shutDown) }

// drain returns when the outbox is sent. Later messages are dropped.
func (b *bridge) drain() {
	b.mu.Lock()
	b.draining = true
	b.wake()
	b.mu.Unlock()
	<-b.drained
}

// enqueue adds a message to the outbox. The caller holds the mutex.
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

// send delivers a message that is not replayed to an actor attached later.
func (b *bridge) send(message proto.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.enqueue(message)
}

// attach sends all further messages to that actor. led says whether this node leads; the
// actor gets LogLeadershipGained only when everything committed before is applied.
func (b *bridge) attach(receiver *actor.PID, incarnation uint32) (led bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.receiver, b.outbox = receiver, nil
	if led = b.leaderRole != nil; led {
		b.leaderRole, b.followerRole = nil, &messages.LogLeaderChanged{}
	}
	close(b.reattached)
	b.reattached = make(chan struct{})
	b.enqueue(&messages.LogAttached{Applied: b.applied, State: b.state, Incarnation: incarnation})
	b.enqueue(&messages.LogMembersChanged{Members: b.members})
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

// setMembers sends the membership to the actor if it has changed.
func (b *bridge) setMembers(members []*messages.Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	equal := slices.EqualFunc(b.members, members, func(a, b *messages.Member) bool { return proto.Equal(a, b) })
	if !equal {
		b.members = members
		b.enqueue(&messages.LogMembersChanged{Members: members})
	}
}

// becomeLeader records that this node leads, and sends it to the actor.
func (b *bridge) becomeLeader(term uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.leaderRole = &messages.LogLeadershipGained{Term: term}
	b.enqueueRole()
}

// becomeFollower records that this node does not lead, and which node does, and sends a
// change of that to the actor.
func (b *bridge) becomeFollower(leader, address string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	follows := &messages.LogLeaderChanged{Leader: leader, Address: address}
	if b.leaderRole != nil || !proto.Equal(b.followerRole, follows) {
		b.leaderRole, b.followerRole = nil, follows
		b.enqueueRole()
	}
}

// isLeader reports whether the attached actor was last told that this node leads.
func (b *bridge) isLeader() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.leaderRole != nil
}

// apply sends entries to the actor and waits until they are on the disk. On an error, the
// entries with index from and higher may not be.
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

// advanceApplied records that the entries of the batch up to that index are on the disk.
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

// appState returns the application's state as of the last entry that it was given.
func (b *bridge) appState() (state []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.shutDown:
		// An entry may have been skipped since the shutdown.
		return nil, errClosed
	default:
		return b.state, nil
	}
}

// setAppState sets the application's state to that of a snapshot.
func (b *bridge) setAppState(index uint64, state []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.applied, b.state = index, state
}

// awaitAttached waits until an actor is attached, and returns a channel that is closed when
// another actor replaces it.
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

// restorePart sends a part of a snapshot to the attached actor and waits until the part is
// on the disk. It returns errReattached if another actor was attached.
func (b *bridge) restorePart(reattached chan struct{}, part *messages.LogSnapshotReceived) error {
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
