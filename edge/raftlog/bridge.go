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

	// The actor gets committed entries as soon as they are committed, so that it can answer
	// what waits for the commit alone. It is at most unappliedMax entries behind.
	unapplied []*messages.CommittedEntry // the entries that the actor has and that are not on the disk
	advanced  chan struct{}              // closed when there are fewer
	applied   uint64                     // index of the last entry that is on the disk
	state     []byte                     // the application's state as of applied

	part        uint64        // the part of a snapshot that is being applied; 0: none
	partApplied chan struct{} // closed when that part is on the disk
}

// unappliedMax is how many entries the actor has at most before they are on the disk, but for those of the last batch.
// raft gives up to 64 entries of at most MaxEntry bytes at a time.
const unappliedMax = 512

// unappliedBytesMax is the same in bytes.
const unappliedBytesMax = 8 << 20

type envelope struct {
	receiver *actor.PID
	message  proto.Message
}

func newBridge(system *actor.ActorSystem) *bridge {
	return &bridge{
		system: system, followerRole: &messages.LogLeaderChanged{},
		wakeup: make(chan struct{}, 1), shutDown: make(chan struct{}), drained: make(chan struct{}),
		reattached: make(chan struct{}), advanced: make(chan struct{}),
	}
}

// run sends the messages of the outbox in their order until drain is called and the outbox is empty.
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
	// What the former actor has not got yet is dropped: the new one gets the state, and the entries after it again.
	b.receiver, b.outbox = receiver, nil
	if led = b.leaderRole != nil; led {
		b.leaderRole, b.followerRole = nil, &messages.LogLeaderChanged{}
	}
	close(b.reattached)
	b.reattached = make(chan struct{})
	// The state comes before the entries that build on it.
	b.enqueue(&messages.LogAttached{Applied: b.applied, State: b.state, Incarnation: incarnation})
	b.enqueue(&messages.LogMembersChanged{Members: b.members})
	b.enqueueRole()
	if len(b.unapplied) > 0 {
		b.enqueue(&messages.LogCommitted{Entries: slices.Clone(b.unapplied)})
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

// apply sends entries to the actor. It waits before that until the actor is not far behind.
func (b *bridge) apply(entries []*messages.CommittedEntry) error {
	isNear := func() bool { return len(b.unapplied) < unappliedMax && b.unappliedBytes() < unappliedBytesMax }
	if err := b.awaitProgress(isNear); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Kept until the actor acknowledges them: an actor that is attached later gets them again.
	b.unapplied = append(b.unapplied, entries...)
	b.enqueue(&messages.LogCommitted{Entries: entries})
	return nil
}

func (b *bridge) unappliedBytes() (size int) {
	for _, e := range b.unapplied {
		size += len(e.Entry)
	}
	return size
}

// awaitApplied returns when all entries that were given to the actor are on the disk.
func (b *bridge) awaitApplied() error {
	return b.awaitProgress(func() bool { return len(b.unapplied) == 0 })
}

// awaitProgress returns nil when the condition holds, and errClosed when the bridge is shut down. The condition is called with the mutex
// held, after each entry that is applied.
func (b *bridge) awaitProgress(holds func() bool) error {
	for {
		b.mu.Lock()
		done, advanced := holds(), b.advanced
		b.mu.Unlock()
		select {
		case <-b.shutDown:
			return errClosed
		default:
		}
		if done {
			return nil
		}
		select {
		case <-advanced:
		case <-b.shutDown:
			return errClosed
		}
	}
}

// advanceApplied records that the entries up to that index are on the disk, and the state after them. An index that is known changes
// nothing.
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
	close(b.advanced)
	b.advanced = make(chan struct{})
}

// appliedIndex is the index of the last entry that is on the disk.
func (b *bridge) appliedIndex() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applied
}

// appState returns the application's state as of the last entry that it was given, when all are on the disk.
func (b *bridge) appState() (state []byte, err error) {
	if err := b.awaitApplied(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state, nil
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
	// The part continues what the former actor has got. Another actor needs the snapshot from its beginning.
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
