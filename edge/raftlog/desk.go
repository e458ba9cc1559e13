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
	errClosed = errors.New("the log is being closed")
	errAgain  = errors.New("another actor is attached: the snapshot begins again")
)

// desk is where raft's goroutines meet the actor that is attached. News are sent by
// one goroutine, in the order in which they came about.
type desk struct {
	system *actor.ActorSystem
	wake   chan struct{} // news are queued; capacity 1
	closed chan struct{} // nothing is delivered any more, and nobody waits
	sent   chan struct{} // the last news are sent

	mu      sync.Mutex
	to      *actor.PID    // nil: nobody
	changed chan struct{} // closed when another is attached
	news    []letter
	ended   bool

	members []*messages.Member
	leads   *messages.LogLeads // nil: it does not
	follows *messages.LogFollows

	// Entries are handed over in batches; the next one comes when all of this one
	// are on the disk.
	entries []*messages.CommittedEntry // that are not
	onDisk  chan struct{}              // closed when they are
	applied uint64                     // the last one that is
	state   []byte                     // what the application remembers, at applied

	part     uint64        // of a snapshot, that is not on the disk; 0: none
	restored chan struct{} // closed when it is
}

type letter struct {
	to   *actor.PID
	what proto.Message
}

func newDesk(system *actor.ActorSystem) *desk {
	return &desk{
		system: system, follows: &messages.LogFollows{},
		wake: make(chan struct{}, 1), closed: make(chan struct{}), sent: make(chan struct{}),
		changed: make(chan struct{}),
	}
}

// run sends the news until the end.
func (d *desk) run() {
	defer close(d.sent)
	for range d.wake {
		d.mu.Lock()
		news, ended := d.news, d.ended
		d.news = nil
		d.mu.Unlock()
		for _, l := range news {
			d.system.Root.Send(l.to, l.what)
		}
		if ended {
			return
		}
	}
}

// release has nobody wait for the actor any more.
func (d *desk) release() { close(d.closed) }

// end sends what is left, and nothing after that.
func (d *desk) end() {
	d.mu.Lock()
	d.ended = true
	d.poke()
	d.mu.Unlock()
	<-d.sent
}

// tell queues a message for the actor. The lock is held.
func (d *desk) tell(what proto.Message) {
	if d.to == nil || d.ended {
		return
	}
	d.news = append(d.news, letter{to: d.to, what: what})
	d.poke()
}

func (d *desk) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// say tells the actor something that nobody remembers.
func (d *desk) say(what proto.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tell(what)
}

// attach has all news go to that actor. led is whether this node leads, which the actor
// is told when it has everything that was committed before.
func (d *desk) attach(to *actor.PID, incarnation uint32) (led bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.to, d.news = to, nil
	if led = d.leads != nil; led {
		d.leads, d.follows = nil, &messages.LogFollows{}
	}
	close(d.changed)
	d.changed = make(chan struct{})
	d.tell(&messages.LogAttached{Applied: d.applied, State: d.state, Incarnation: incarnation})
	d.tell(&messages.LogMembers{Members: d.members})
	d.tellRole()
	if len(d.entries) > 0 {
		d.tell(&messages.LogCommitted{Entries: d.entries})
	}
	return led
}

func (d *desk) tellRole() {
	if d.leads != nil {
		d.tell(d.leads)
	} else {
		d.tell(d.follows)
	}
}

// setMembers tells of the membership if it is another one.
func (d *desk) setMembers(members []*messages.Member) {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := slices.EqualFunc(d.members, members, func(a, b *messages.Member) bool { return proto.Equal(a, b) })
	if !same {
		d.members = members
		d.tell(&messages.LogMembers{Members: members})
	}
}

// lead says that this node leads.
func (d *desk) lead(term uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.leads = &messages.LogLeads{Term: term}
	d.tellRole()
}

// follow says that this node leads no more, and who does.
func (d *desk) follow(leader, address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	follows := &messages.LogFollows{Leader: leader, Address: address}
	if d.leads != nil || !proto.Equal(d.follows, follows) {
		d.leads, d.follows = nil, follows
		d.tellRole()
	}
}

// leading is whether LogLeads is the last word.
func (d *desk) leading() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.leads != nil
}

// apply hands entries over and waits until they are on the disk. Else it says from
// which index on they may not be.
func (d *desk) apply(entries []*messages.CommittedEntry) (from uint64, err error) {
	select {
	case <-d.closed:
		return entries[0].Index, errClosed
	default:
	}
	d.mu.Lock()
	d.entries, d.onDisk = entries, make(chan struct{})
	onDisk := d.onDisk
	d.tell(&messages.LogCommitted{Entries: entries})
	d.mu.Unlock()
	select {
	case <-onDisk:
		return 0, nil
	case <-d.closed:
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.entries) == 0 {
		return 0, nil
	}
	from = d.entries[0].Index
	d.entries = nil
	return from, errClosed
}

// appliedTo: entries up to that index are on the disk, of those handed over.
func (d *desk) appliedTo(index uint64, state []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest, _ := slices.BinarySearchFunc(d.entries, index, func(e *messages.CommittedEntry, index uint64) int {
		if e.Index <= index {
			return -1
		}
		return 1
	})
	if rest == 0 {
		return
	}
	d.applied, d.state = d.entries[rest-1].Index, state
	d.entries = d.entries[rest:]
	if len(d.entries) == 0 {
		close(d.onDisk)
	}
}

// remembered is the application's memory as of the last entry that it was given.
func (d *desk) remembered() (state []byte, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case <-d.closed:
		// Entries may have been passed over since.
		return nil, errClosed
	default:
		return d.state, nil
	}
}

// remember is what a snapshot says of the application.
func (d *desk) remember(index uint64, state []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applied, d.state = index, state
}

// attached waits until an actor is, and returns a channel that is closed when it is
// another one.
func (d *desk) attached() (changed chan struct{}, err error) {
	for {
		d.mu.Lock()
		to, changed := d.to, d.changed
		d.mu.Unlock()
		if to != nil {
			return changed, nil
		}
		select {
		case <-changed:
		case <-d.closed:
			return nil, errClosed
		}
	}
}

// restore hands a part of a snapshot to that actor and waits until it is on the disk.
func (d *desk) restore(changed chan struct{}, part *messages.LogRestore) error {
	d.mu.Lock()
	if d.changed != changed {
		d.mu.Unlock()
		return errAgain
	}
	d.part, d.restored = part.Part, make(chan struct{})
	restored := d.restored
	d.tell(part)
	d.mu.Unlock()
	select {
	case <-restored:
		return nil
	case <-changed:
		return errAgain
	case <-d.closed:
		return errClosed
	}
}

func (d *desk) restoredPart(part uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if part != 0 && part == d.part {
		d.part = 0
		close(d.restored)
	}
}
