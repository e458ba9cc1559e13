package consensus

import (
	"bytes"
	"math"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"lockstep/actors/replicator"
	"lockstep/core/replication"
	"lockstep/messages"
)

// Sender sends a message to an actor.
type Sender func(to *actor.PID, what proto.Message)

// bridge connects a node's log with the attached actor.
type bridge struct {
	replica *Active
	sender  Sender
	to      *actor.PID // nil: none
	number  int        // number of the attachment

	applied             uint64 // index of the last entry that is on the files
	state               []byte // the application's state at applied
	entries             []*messages.CommittedEntry
	sentThrough         uint64 // index of the last entry that was sent
	sentMembers         []*messages.Member
	sentFollows         *messages.LogLeaderChanged // the last message about the leader; nil: it was LogLeadershipGained
	every               uint64                     // entries between snapshots
	restoredWhileActive bool                       // a snapshot was restored while the node runs
	part                uint64                     // number of the part of the snapshot that was sent; 0: none
	skipped             int

	// onApplied is called when every entry up to an index is applied.
	onApplied func(index uint64, state []byte)
	// onRestored is called instead after a restored snapshot.
	onRestored func(index uint64)
}

var _ replicator.Log = (*Active)(nil)

func newBridge(n *Active, send Sender) *bridge {
	d := &bridge{replica: n, sender: send, applied: n.snapshot.index, state: n.snapshot.state, sentFollows: &messages.LogLeaderChanged{},
		every: snapshotEvery + n.consensus.rng.Uint64N(3*snapshotEvery), onApplied: func(uint64, []byte) {}, onRestored: func(uint64) {}}
	d.sentThrough = d.applied
	if n.restoring != nil {
		d.applied, d.state = 0, nil
	}
	return d
}

// send sends a message to the actor, as a step of its own.
func (d *bridge) send(what proto.Message) {
	if d.to == nil {
		return
	}
	to, number := d.to, d.number
	d.replica.thread.Do(func() {
		if number == d.number {
			d.sender(to, what)
		}
	})
}

// Attach makes this actor the one that gets the messages of the log. What was not applied is sent again.
func (n *Active) Attach(to *actor.PID, incarnation uint32) {
	d := n.bridge
	d.to = to
	d.number++
	d.sentMembers = n.Members()
	if n.announced { // LogLeadershipGained is sent again when everything proposed before is applied
		n.announced, n.barrier, d.sentFollows = false, math.MaxUint64, &messages.LogLeaderChanged{}
		n.thread.Do(func() {
			n.barrier = n.Last()
			d.announceLeader()
		})
	}
	d.send(&messages.LogAttached{Applied: d.applied, State: d.state, Incarnation: incarnation})
	d.send(&messages.LogMembersChanged{Members: d.sentMembers})
	d.sendRole()
	switch {
	case n.restoring != nil && len(d.entries) == 0:
		d.restore(1)
	case len(d.entries) > 0:
		d.send(&messages.LogCommitted{Entries: slices.Clone(d.entries)})
	default:
		d.sendCommitted()
	}
}

func (d *bridge) sendRole() {
	if d.sentFollows == nil {
		d.send(&messages.LogLeadershipGained{Term: d.replica.term})
	} else {
		d.send(d.sentFollows)
	}
}

// sendLeader sends the actor a change of the leader, if it was not told that.
func (d *bridge) sendLeader() {
	n := d.replica
	is := &messages.LogLeaderChanged{}
	if n.leader != "" && n.leader != n.name {
		is.Leader, is.Address = n.leader, n.consensus.Replica(n.leader).Address
	}
	if d.sentFollows == nil && n.role == roleLeader || d.sentFollows != nil && proto.Equal(d.sentFollows, is) {
		return
	}
	d.sentFollows = is
	d.sendRole()
}

// sendMembers sends the actor a change of the members, if it was not told that.
func (d *bridge) sendMembers() {
	members := d.replica.Members()
	same := slices.EqualFunc(d.sentMembers, members, func(a, b *messages.Member) bool { return proto.Equal(a, b) })
	if !same {
		d.sentMembers = members
		d.send(&messages.LogMembersChanged{Members: members})
	}
}

// unappliedMax is how many entries the actor has before they are on the files, but for those of the last batch.
const unappliedMax = 24

// sendCommitted sends committed entries that were not sent yet. Like the real log it does not wait for those that were sent,
// unless there are many or a snapshot is due.
func (d *bridge) sendCommitted() {
	n := d.replica
	if n.consensus.Mutations.ServesEarly && n.restoring == nil {
		d.announceLeader()
	}
	if d.to == nil || n.restoring != nil || len(d.entries) >= unappliedMax || len(d.entries) > 0 && d.sentThrough >= n.snapshot.index+d.every {
		return
	}
	var batch []*messages.CommittedEntry
	most := 1 + n.consensus.rng.IntN(8)
	for d.sentThrough < n.commit && len(batch) < most {
		d.sentThrough++
		e := n.at(d.sentThrough)
		if e.data == nil || d.skips() {
			continue
		}
		batch = append(batch, &messages.CommittedEntry{Index: d.sentThrough, Entry: e.data})
	}
	if len(batch) > 0 {
		d.entries = append(d.entries, batch...)
		d.send(&messages.LogCommitted{Entries: batch})
		return
	}
	if len(d.entries) == 0 {
		d.applied = d.sentThrough
		d.announceLeader()
	}
}

func (d *bridge) skips() bool {
	if d.replica.consensus.Mutations.Skips != d.replica.name {
		return false
	}
	d.skipped++
	return d.skipped%7 == 0
}

// announceLeader sends LogLeadershipGained when every entry of former terms is applied here.
func (d *bridge) announceLeader() {
	n := d.replica
	if n.role == roleLeader && !n.announced && (d.applied >= n.barrier || n.consensus.Mutations.ServesEarly) {
		n.announced, d.sentFollows = true, nil
		d.sendRole()
		n.extendLease()
	}
}

// Applied acknowledges that entries up to index are on this node's disk, and the state after them. The actor gets the next ones.
func (n *Active) Applied(index uint64, state []byte) {
	d := n.bridge
	rest := slices.IndexFunc(d.entries, func(e *messages.CommittedEntry) bool { return e.Index > index })
	if rest < 0 {
		rest = len(d.entries)
	}
	if rest == 0 {
		return
	}
	d.applied, d.state = d.entries[rest-1].Index, bytes.Clone(state)
	d.entries = d.entries[rest:]
	d.onApplied(d.applied, d.state)
	if len(d.entries) > 0 {
		d.sendCommitted()
		return
	}
	d.applied = d.sentThrough
	if d.applied >= n.snapshot.index+d.every {
		n.Compact()
	}
	d.announceLeader()
	if n.restoring != nil {
		d.restore(1)
		return
	}
	d.sendCommitted()
}

// Observe sets callbacks: applied for applied entries, restored for a restored snapshot.
func (n *Active) Observe(applied func(index uint64, state []byte), restored func(index uint64)) {
	n.bridge.onApplied, n.bridge.onRestored = applied, restored
}

// Reapplied reports whether all entries that were in the log when the daemon started are applied.
func (n *Active) Reapplied() bool { return n.restoring == nil && n.bridge.applied >= n.former }

// AppliedIndex is the index up to which the actor has applied all entries.
func (n *Active) AppliedIndex() uint64 { return n.bridge.applied }

// SentThrough is the index of the last entry that was sent to the actor.
func (n *Active) SentThrough() uint64 { return n.bridge.sentThrough }

// LeadsLatest reports whether this node leads in the latest term in which a node leads.
func (n *Active) LeadsLatest() bool {
	return n.role == roleLeader && n.term == n.consensus.latestTerm()
}

// Propose proposes an entry, of which the actor hears when it is committed. On a node that does not lead it is refused.
func (n *Active) Propose(number uint64, data []byte) {
	data = bytes.Clone(data)
	n.thread.Do(func() {
		if n.role != roleLeader || n.transferTo != "" {
			n.bridge.send(&messages.LogRefused{Number: number, Failure: logFailure("this node does not lead")})
			return
		}
		n.waiting[n.Last()+1] = number
		n.add(entry{data: data})
		n.broadcast()
	})
}

// Change changes the membership, or transfers the leadership.
func (n *Active) Change(number uint64, c replicator.Change) {
	n.thread.Do(func() { n.change(membershipChange{number, c}) })
}

// Leads reports whether this node is certain to be the only leader.
func (n *Active) Leads() bool {
	return n.consensus.Mutations.AlwaysLeads || n.role == roleLeader && n.announced && n.now().Before(n.leaseUntil)
}

// sendSnapshot sends a node all files as they are now, with the state of the last snapshot.
func (n *Active) sendSnapshot(name string, p *peer) {
	p.busy = n.now().Add(4 * appendAnswer)
	files, copied, term, sent, leader := n.Files(), n.snapshot, n.term, n.now(), n.name
	n.rpc(name, time.Duration(n.consensus.rng.IntN(300))*time.Millisecond, func(other *Replica) func() {
		ok, at := other.Active.install(leader, term, copied, files)
		if !ok && at == term {
			return nil // the node is restoring a snapshot
		}
		return func() {
			n.answered(name, p, term, sent, ok, at, copied.index)
		}
	})
}

// install takes a received snapshot: it is on this node's disk, atomically, before its first part
// is sent to the actor.
func (n *Active) install(leader string, term uint64, s snapshotMeta, files []*messages.FileWrite) (ok bool, at uint64) {
	if term < n.term {
		return false, n.term
	}
	n.heardLeader(leader, term)
	if n.restoring != nil {
		return false, n.term
	}
	if s.index <= n.commit {
		return true, n.term
	}
	// A received snapshot replaces entries. What these have changed is made durable before.
	if len(n.bridge.entries) > 0 || !n.synced() {
		return false, n.term
	}
	if s.index < n.Last() && s.index >= n.base && n.termAt(s.index) == s.term {
		n.dropThrough(s.index)
	} else {
		n.base, n.baseTerm, n.log = s.index, s.term, nil
	}
	n.snapshot, n.restoring, n.commit = s, files, s.index
	n.bridge.restoredWhileActive, n.bridge.part = true, 0
	n.consensus.Tracef("%s takes a snapshot of all up to %d", n.name, s.index)
	n.bridge.sendMembers()
	if len(n.bridge.entries) == 0 {
		n.bridge.restore(1)
	}
	return true, n.term
}

// restore sends one part of a snapshot to the actor, if one is attached.
func (d *bridge) restore(part uint64) {
	if d.to == nil {
		return
	}
	n := d.replica
	d.part = part
	from := min(int(part-1)*partFiles, len(n.restoring))
	to := min(from+partFiles, len(n.restoring))
	m := &messages.LogSnapshotReceived{Part: part, Files: n.restoring[from:to], Last: to == len(n.restoring), Index: n.snapshot.index}
	if part == 1 {
		m.State = n.snapshot.state
	}
	d.send(m)
}

// Restored acknowledges that a part of a snapshot is on the disk, and sends the next part. After the last one the committed entries
// follow.
func (n *Active) Restored(part uint64) {
	d := n.bridge
	if n.restoring == nil || part == 0 || part != d.part {
		return
	}
	if int(part)*partFiles < len(n.restoring) {
		d.restore(part + 1)
		return
	}
	if !n.synced() || n.Noting(n.snapshot.index) != nil {
		return // the daemon's successor restores the snapshot again
	}
	n.restoring, d.part, d.restoredWhileActive = nil, 0, false
	d.applied, d.sentThrough, d.state = n.snapshot.index, n.snapshot.index, n.snapshot.state
	d.onRestored(n.snapshot.index)
	d.sendCommitted()
}

// LeadsUntil is the end of the lease; it never ends if no other node could lead.
func (n *Active) LeadsUntil(until time.Time) time.Time {
	if replication.Voters(n.Members()) == 1 {
		return until.Add(1 << 60)
	}
	return until
}
