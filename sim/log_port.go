package sim

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

// courier sends a message to an actor.
type courier func(to *actor.PID, what proto.Message)

// desk is where a node's log meets the actor that is attached.
type desk struct {
	of     *running
	send   courier
	to     *actor.PID // nil: nobody
	number int        // of the attachment

	applied uint64 // and all before, on the files
	state   []byte // what the application remembers then
	entries []*messages.CommittedEntry
	through uint64 // index up to which entries go
	saidM   []*messages.Member
	saidL   *messages.LogFollows // said last; nil: LogLeads was
	every   uint64               // entries between snapshots
	arrived bool                 // a snapshot, while the node runs
	part    uint64               // of the snapshot, that is on its way; 0: none
	skipped int

	// told is told when everything up to an index is applied.
	told func(index uint64, state []byte)
	// restored is told of the same where a snapshot has brought it about.
	restored func(n note)
}

var _ replicator.Log = (*running)(nil)

func newDesk(n *running, send courier) *desk {
	d := &desk{of: n, send: send, applied: n.note.index, state: n.note.state, saidL: &messages.LogFollows{},
		every: snapshotEvery + n.of.rng.Uint64N(3*snapshotEvery), told: func(uint64, []byte) {}, restored: func(note) {}}
	d.through = d.applied
	if n.restoring != nil {
		d.applied, d.state = 0, nil
	}
	return d
}

// say tells the actor something, as a step of its own.
func (d *desk) say(what proto.Message) {
	if d.to == nil {
		return
	}
	to, number := d.to, d.number
	d.of.thread.do(func() {
		if number == d.number {
			d.send(to, what)
		}
	})
}

// Attach has all news go to this actor.
func (n *running) Attach(to *actor.PID, incarnation uint32) {
	d := n.desk
	d.to = to
	d.number++
	d.saidM = n.members()
	if n.told { // it is told again when everything is applied that was proposed before
		n.told, n.barrier, d.saidL = false, math.MaxUint64, &messages.LogFollows{}
		n.thread.do(func() {
			n.barrier = n.last()
			d.begin()
		})
	}
	d.say(&messages.LogAttached{Applied: d.applied, State: d.state, Incarnation: incarnation})
	d.say(&messages.LogMembers{Members: d.saidM})
	d.sayRole()
	switch {
	case n.restoring != nil && len(d.entries) == 0:
		d.restore(1)
	case len(d.entries) > 0:
		d.say(&messages.LogCommitted{Entries: d.entries})
	default:
		d.feed()
	}
}

func (d *desk) sayRole() {
	if d.saidL == nil {
		d.say(&messages.LogLeads{Term: d.of.term})
	} else {
		d.say(d.saidL)
	}
}

// follow says who leads, where it is another one or nobody.
func (d *desk) follow() {
	n := d.of
	is := &messages.LogFollows{}
	if n.leader != "" && n.leader != n.name {
		is.Leader, is.Address = n.leader, n.of.replica(n.leader).address
	}
	if d.saidL == nil && n.role == leads || d.saidL != nil && proto.Equal(d.saidL, is) {
		return
	}
	d.saidL = is
	d.sayRole()
}

// members says who belongs to the cluster, if that has changed.
func (d *desk) members() {
	members := d.of.members()
	same := slices.EqualFunc(d.saidM, members, func(a, b *messages.Member) bool { return proto.Equal(a, b) })
	if !same {
		d.saidM = members
		d.say(&messages.LogMembers{Members: members})
	}
}

// feed hands over what is committed and was not yet.
func (d *desk) feed() {
	n := d.of
	if d.to == nil || len(d.entries) > 0 || n.restoring != nil {
		return
	}
	most := 1 + n.of.rng.IntN(8)
	for d.through < n.commit && len(d.entries) < most {
		d.through++
		e := n.at(d.through)
		if e.data == nil || d.skips() {
			continue
		}
		d.entries = append(d.entries, &messages.CommittedEntry{Index: d.through, Entry: e.data})
	}
	if len(d.entries) > 0 {
		d.say(&messages.LogCommitted{Entries: d.entries})
		return
	}
	d.applied = d.through
	d.begin()
}

func (d *desk) skips() bool {
	if d.of.of.plants.Skips != d.of.name {
		return false
	}
	d.skipped++
	return d.skipped%7 == 0
}

// begin says that this node leads, when it has everything from before.
func (d *desk) begin() {
	n := d.of
	if n.role == leads && !n.told && d.applied >= n.barrier {
		n.told, d.saidL = true, nil
		d.sayRole()
		n.extend()
	}
}

// Applied says that entries are on this node's disk.
func (n *running) Applied(index uint64, state []byte) {
	d := n.desk
	rest := slices.IndexFunc(d.entries, func(e *messages.CommittedEntry) bool { return e.Index > index })
	if rest < 0 {
		rest = len(d.entries)
	}
	if rest == 0 {
		return
	}
	d.applied, d.state = d.entries[rest-1].Index, bytes.Clone(state)
	d.entries = d.entries[rest:]
	d.told(d.applied, d.state)
	if len(d.entries) > 0 {
		return
	}
	d.applied = d.through
	if d.applied >= n.note.index+d.every {
		n.compact()
	}
	d.begin()
	if n.restoring != nil {
		d.restore(1)
		return
	}
	d.feed()
}

// Propose offers an entry.
func (n *running) Propose(number uint64, data []byte) {
	data = bytes.Clone(data)
	n.thread.do(func() {
		if n.role != leads || n.handing != "" {
			n.desk.say(&messages.LogRefused{Number: number, Failure: logFailure("this node does not lead")})
			return
		}
		n.waiting[n.last()+1] = number
		n.add(entry{data: data})
		n.broadcast()
	})
}

// Change changes the membership, or hands the leadership over.
func (n *running) Change(number uint64, c replicator.Change) {
	n.thread.do(func() { n.change(wanted{number, c}) })
}

// Leads is whether it is certain that no other node does.
func (n *running) Leads() bool {
	return n.of.plants.AlwaysLeads || n.role == leads && n.told && n.now().Before(n.until)
}

// sendSnapshot gives a node all files as they are now, and what was remembered at the
// last snapshot.
func (n *running) sendSnapshot(name string, p *peer) {
	p.busy = n.now().Add(4 * appendAnswer)
	files, copied, term, sent, leader := n.files(), n.note, n.term, n.now(), n.name
	n.rpc(name, time.Duration(n.of.rng.IntN(300))*time.Millisecond, func(other *replica) func() {
		ok, at := other.runs.install(leader, term, copied, files)
		if !ok && at == term {
			return nil // it has its hands full
		}
		return func() {
			n.answered(name, p, term, sent, ok, at, copied.index)
		}
	})
}

// install takes a snapshot: first of all it is on this node's disk, in one step.
func (n *running) install(leader string, term uint64, s note, files []*messages.FileWrite) (ok bool, at uint64) {
	if term < n.term {
		return false, n.term
	}
	n.hear(leader, term)
	if n.restoring != nil {
		return false, n.term
	}
	if s.index <= n.commit {
		return true, n.term
	}
	if s.index < n.last() && s.index >= n.base && n.termAt(s.index) == s.term {
		n.dropThrough(s.index)
	} else {
		n.base, n.baseT, n.log = s.index, s.term, nil
	}
	n.note, n.restoring, n.commit = s, files, s.index
	n.desk.arrived, n.desk.part = true, 0
	n.of.say("%s takes a snapshot of all up to %d", n.name, s.index)
	n.desk.members()
	if len(n.desk.entries) == 0 {
		n.desk.restore(1)
	}
	return true, n.term
}

// restore hands over one part of a snapshot.
func (d *desk) restore(part uint64) {
	if d.to == nil {
		return
	}
	n := d.of
	d.part = part
	from := min(int(part-1)*partFiles, len(n.restoring))
	to := min(from+partFiles, len(n.restoring))
	m := &messages.LogRestore{Part: part, Files: n.restoring[from:to], Last: to == len(n.restoring), Index: n.note.index}
	if part == 1 {
		m.State = n.note.state
	}
	d.say(m)
}

// Restored says that a part of a snapshot is on the disk.
func (n *running) Restored(part uint64) {
	d := n.desk
	if n.restoring == nil || part == 0 || part != d.part {
		return
	}
	if int(part)*partFiles < len(n.restoring) {
		d.restore(part + 1)
		return
	}
	n.restoring, d.part, d.arrived = nil, 0, false
	d.applied, d.through, d.state = n.note.index, n.note.index, n.note.state
	d.restored(n.note)
	d.feed()
}

// leadsUntil is the end of the lease; for ever where nobody else could lead.
func (n *running) leadsUntil(until time.Time) time.Time {
	if replication.Voters(n.members()) == 1 {
		return until.Add(1 << 60)
	}
	return until
}
