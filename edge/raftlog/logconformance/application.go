package logconformance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"lockstep/messages"
)

// oracle is what the nodes of a cluster have reported, and the violations found.
type oracle struct {
	mu         sync.Mutex
	entries    map[uint64]string // by index
	indexes    map[string]uint64 // by entry
	last       uint64            // highest index that any node has committed
	running    map[string]Node
	violations []string
}

func newOracle() *oracle {
	return &oracle{entries: map[uint64]string{}, indexes: map[string]uint64{}, running: map[string]Node{}}
}

func (o *oracle) violation(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.violations = append(o.violations, fmt.Sprintf(format, args...))
}

// committed records an entry that a node has committed. An entry that differs from another node's, or has another index, is a violation.
func (o *oracle) committed(node string, index uint64, entry string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if old, known := o.entries[index]; known && old != entry {
		o.violations = append(o.violations, fmt.Sprintf("%s: %s at %d, where %s was", node, entry, index, old))
	}
	if old, known := o.indexes[entry]; known && old != index {
		o.violations = append(o.violations, fmt.Sprintf("%s: %s at %d, and at %d", node, entry, index, old))
	}
	o.entries[index], o.indexes[entry] = entry, index
	o.last = max(o.last, index)
}

func (o *oracle) has(entry string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, known := o.indexes[entry]
	return known
}

// position is a point of the log: the index, and a digest of all entries up to it.
type position struct {
	index  uint64
	digest string
}

func (p position) state() []byte { return fmt.Appendf(nil, "%d %s", p.index, p.digest) }

// application is the application on a node. All but the first few fields are on its disk.
type application struct {
	name   string
	oracle *oracle
	node   Node
	pid    *actor.PID

	mu            sync.Mutex
	attachments   int               // number of attachments; messages of an earlier one are ignored
	leads         bool              // the last message was LogLeadershipGained
	leader        string            // the leader that LogLeaderChanged named
	members       map[string]string // address by name, "+" before it for a voter
	refused       map[uint64]*messages.LogRefused
	changed       map[uint64]*messages.LogChangeResult
	budget        int // how many more entries, or parts of a snapshot, the application takes; -1: all
	queued        []any
	firstIndex    uint64 // first index given to this attachment
	restored      int    // completely restored snapshots
	partsReceived uint64 // of the current snapshot
	incoming      map[string]string
	snapshotState string // state of the last snapshot

	files     map[string]string
	position  position
	positions map[uint64]position // by index; repeated entries are acknowledged with the same state
}

// resume makes an actor take the messages that it has held back.
type resume struct{}

// attachment is the actor of one attachment.
type attachment struct {
	application *application
	sequence    int
	lastGiven   uint64 // index of the last entry it was given
	lastTaken   uint64 // index of the last entry it has taken
}

// Receive handles the messages of the log, as a test application. A former attachment gets none.
func (l *attachment) Receive(ctx actor.Context) {
	a := l.application
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.sequence != a.attachments {
		return
	}
	switch m := ctx.Message().(type) {
	case *messages.LogCommitted, *messages.LogSnapshotReceived:
		if c, ok := m.(*messages.LogCommitted); ok {
			if c.Entries[0].Index <= l.lastGiven {
				a.oracle.violation("%s: %d is given behind %d", a.name, c.Entries[0].Index, l.lastGiven)
			}
			l.lastGiven = c.Entries[len(c.Entries)-1].Index
		}
		a.queued = append(a.queued, m)
		l.takeQueued()
	case resume:
		l.takeQueued()
	case *messages.LogRefused:
		if _, repeated := a.refused[m.Number]; repeated {
			a.oracle.violation("%s: %d was refused twice", a.name, m.Number)
		}
		a.refused[m.Number] = m
	case *messages.LogChangeResult:
		a.changed[m.Number] = m
	case *messages.LogMembersChanged:
		a.members = map[string]string{}
		for _, member := range m.Members {
			a.members[member.Name] = member.Address
			if member.Voter {
				a.members[member.Name] = "+" + member.Address
			}
		}
	case *messages.LogLeadershipGained:
		a.becameLeader()
	case *messages.LogLeaderChanged:
		a.leads, a.leader = false, m.Leader
	}
}

// becameLeader checks that no other node leads, and that this node has every committed entry. The message may be late: another node may
// have led, and committed entries, since it was sent. So this node is asked, after each look at the others, whether it leads still.
func (a *application) becameLeader() {
	if a.leads {
		a.oracle.violation("%s was told twice that it leads", a.name)
	}
	a.leads, a.leader = true, ""
	a.oracle.mu.Lock()
	last, running := a.oracle.last, maps.Clone(a.oracle.running)
	a.oracle.mu.Unlock()
	if (len(a.queued) > 0 || a.position.index < last) && a.node.Log.Leads() {
		a.oracle.violation("%s leads, and has %d applied of %d", a.name, a.position.index, last)
	}
	for other, node := range running {
		if other != a.name && node.Log.Leads() && a.node.Log.Leads() {
			a.oracle.violation("%s leads, and so does %s", a.name, other)
		}
	}
}

// takeQueued takes held messages within the budget; a budget below 0 has no end.
func (l *attachment) takeQueued() {
	a := l.application
	for len(a.queued) > 0 && a.budget != 0 {
		what := a.queued[0]
		switch m := what.(type) {
		case *messages.LogSnapshotReceived:
			a.queued = a.queued[1:]
			a.spendBudget()
			l.restore(m)
		case *messages.LogCommitted:
			l.apply(m)
			if len(m.Entries) > 0 && m.Entries[len(m.Entries)-1].Index <= l.lastTaken {
				a.queued = a.queued[1:]
			}
		}
	}
}

func (a *application) spendBudget() {
	if a.budget > 0 {
		a.budget--
	}
}

// apply applies new entries within the budget, and acknowledges all that are applied.
func (l *attachment) apply(m *messages.LogCommitted) {
	a := l.application
	for _, e := range m.Entries {
		if e.Index <= l.lastTaken {
			continue // applied before it was held back
		}
		if a.budget == 0 {
			break
		}
		a.spendBudget()
		if a.firstIndex == 0 {
			a.firstIndex = e.Index
		}
		l.lastTaken = e.Index
		a.applyEntry(e)
	}
	a.node.Log.Applied(l.lastTaken, a.positions[l.lastTaken].state())
}

func (a *application) applyEntry(e *messages.CommittedEntry) {
	entry := string(e.Entry)
	a.oracle.committed(a.name, e.Index, entry)
	if e.Index <= a.position.index {
		// Given again after a restart, or part of a snapshot: it is on the disk.
		if _, known := a.positions[e.Index]; !known {
			a.oracle.violation("%s: %d comes behind a snapshot up to %d", a.name, e.Index, a.position.index)
		}
		return
	}
	sum := sha256.Sum256([]byte(a.position.digest + entry))
	a.position = position{index: e.Index, digest: hex.EncodeToString(sum[:8])}
	a.positions[e.Index] = a.position
	var change messages.LogEntry
	if err := proto.Unmarshal(e.Entry, &change); err != nil {
		a.oracle.violation("%s: entry %d: %v", a.name, e.Index, err)
	}
	for _, c := range change.Changes {
		a.files[c.GetUpdate().Path] = string(c.GetUpdate().Content)
	}
}

// restore takes a part of a snapshot, and acknowledges it. The last part replaces all files. Parts out of order are violations.
func (l *attachment) restore(m *messages.LogSnapshotReceived) {
	a := l.application
	if m.Part != a.partsReceived+1 {
		a.oracle.violation("%s: part %d of a snapshot after %d", a.name, m.Part, a.partsReceived)
	}
	a.partsReceived = m.Part
	if m.Part == 1 {
		a.incoming, a.snapshotState = map[string]string{}, string(m.State)
	}
	for _, f := range m.Files {
		if _, repeated := a.incoming[f.Path]; repeated {
			a.oracle.violation("%s: %s is twice in a snapshot", a.name, f.Path)
		}
		a.incoming[f.Path] = string(f.Content)
	}
	if m.Last {
		a.files, a.partsReceived = a.incoming, 0
		a.position, a.positions = position{}, map[uint64]position{}
		if index, digest, ok := strings.Cut(a.snapshotState, " "); ok {
			a.position.digest = digest
			if _, err := fmt.Sscan(index, &a.position.index); err != nil {
				a.oracle.violation("%s: a snapshot has the state %q", a.name, a.snapshotState)
			}
		}
		l.lastTaken = a.position.index
		a.restored++
	}
	a.node.Log.Restored(m.Part)
}

// copyFiles returns a copy of the application's files, for a snapshot.
func (a *application) copyFiles() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.files)
}

// inspect returns the result of f, which is called with the application's mutex held.
func (a *application) inspect(f func(*application) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f(a)
}
