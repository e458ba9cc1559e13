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

// world is what is known of the whole cluster, and what went wrong.
type world struct {
	mu      sync.Mutex
	entries map[uint64]string // by index
	indexes map[string]uint64 // by entry
	last    uint64            // index that was committed anywhere
	running map[string]Node
	wrong   []string
}

func newWorld() *world {
	return &world{entries: map[uint64]string{}, indexes: map[string]uint64{}, running: map[string]Node{}}
}

func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// committed enters an entry that a node was given.
func (w *world) committed(node string, index uint64, entry string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, known := w.entries[index]; known && old != entry {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %s at %d, where %s was", node, entry, index, old))
	}
	if old, known := w.indexes[entry]; known && old != index {
		w.wrong = append(w.wrong, fmt.Sprintf("%s: %s at %d, and at %d", node, entry, index, old))
	}
	w.entries[index], w.indexes[entry] = entry, index
	w.last = max(w.last, index)
}

func (w *world) has(entry string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.indexes[entry]
	return known
}

// mark is a point of the log: the index, and a digest of all entries up to it.
type mark struct {
	index  uint64
	digest string
}

func (m mark) state() []byte { return fmt.Appendf(nil, "%d %s", m.index, m.digest) }

// app is the application on a node. All but the first few fields are on its disk.
type app struct {
	name  string
	world *world
	node  Node
	pid   *actor.PID

	mu       sync.Mutex
	attached int               // how often; who was attached before is not listened to
	leads    bool              // LogLeads was told last
	leader   string            // that LogFollows named
	members  map[string]string // address by name, "+" before it for a voter
	refused  map[uint64]*messages.LogRefused
	changed  map[uint64]*messages.LogChanged
	budget   int // how many more entries, or parts of a snapshot, it takes; -1: all
	held     []any
	first    uint64 // index given to this attachment
	restored int    // snapshots, as a whole
	parts    uint64 // of the present one
	incoming map[string]string
	memory   string // state of the last snapshot

	files map[string]string
	at    mark
	marks map[uint64]mark // by index: what was given again is acknowledged as before
}

// goOn has an actor take what it had held back.
type goOn struct{}

// listener is the actor of one attachment.
type listener struct {
	app    *app
	number int
	given  uint64 // index of the last entry it was given
	last   uint64 // that it has taken
}

// Receive takes the log's news.
func (l *listener) Receive(ctx actor.Context) {
	a := l.app
	a.mu.Lock()
	defer a.mu.Unlock()
	if l.number != a.attached {
		return
	}
	switch m := ctx.Message().(type) {
	case *messages.LogCommitted, *messages.LogRestore:
		if c, ok := m.(*messages.LogCommitted); ok {
			if c.Entries[0].Index <= l.given || len(a.held) > 0 {
				a.world.fault("%s: %d is given behind %d, with %d held", a.name, c.Entries[0].Index, l.given, len(a.held))
			}
			l.given = c.Entries[len(c.Entries)-1].Index
		}
		a.held = append(a.held, m)
		l.work()
	case goOn:
		l.work()
	case *messages.LogRefused:
		if _, twice := a.refused[m.Number]; twice {
			a.world.fault("%s: %d was refused twice", a.name, m.Number)
		}
		a.refused[m.Number] = m
	case *messages.LogChanged:
		a.changed[m.Number] = m
	case *messages.LogMembers:
		a.members = map[string]string{}
		for _, member := range m.Members {
			a.members[member.Name] = member.Address
			if member.Voter {
				a.members[member.Name] = "+" + member.Address
			}
		}
	case *messages.LogLeads:
		a.begins()
	case *messages.LogFollows:
		a.leads, a.leader = false, m.Leader
	}
}

// begins: this node leads, so no other may, and it has everything.
func (a *app) begins() {
	if a.leads {
		a.world.fault("%s was told twice that it leads", a.name)
	}
	a.leads, a.leader = true, ""
	a.world.mu.Lock()
	last, running := a.world.last, maps.Clone(a.world.running)
	a.world.mu.Unlock()
	if len(a.held) > 0 || a.at.index < last {
		a.world.fault("%s leads, and has %d applied of %d", a.name, a.at.index, last)
	}
	for other, node := range running {
		if other != a.name && node.Log.Leads() {
			a.world.fault("%s leads, and so does %s", a.name, other)
		}
	}
}

// work takes as much as it may of what is held.
func (l *listener) work() {
	a := l.app
	for len(a.held) > 0 && a.budget != 0 {
		what := a.held[0]
		switch m := what.(type) {
		case *messages.LogRestore:
			a.held = a.held[1:]
			a.spend()
			l.restore(m)
		case *messages.LogCommitted:
			l.apply(m)
			if len(m.Entries) > 0 && m.Entries[len(m.Entries)-1].Index <= l.last {
				a.held = a.held[1:]
			}
		}
	}
}

func (a *app) spend() {
	if a.budget > 0 {
		a.budget--
	}
}

// apply takes entries that it has not had yet, and acknowledges them.
func (l *listener) apply(m *messages.LogCommitted) {
	a := l.app
	for _, e := range m.Entries {
		if e.Index <= l.last {
			continue // before it was held
		}
		if a.budget == 0 {
			break
		}
		a.spend()
		if a.first == 0 {
			a.first = e.Index
		}
		l.last = e.Index
		a.take(e)
	}
	a.node.Log.Applied(l.last, a.marks[l.last].state())
}

func (a *app) take(e *messages.CommittedEntry) {
	entry := string(e.Entry)
	a.world.committed(a.name, e.Index, entry)
	if e.Index <= a.at.index {
		// After a restart, or in a snapshot. It is on the disk.
		if _, known := a.marks[e.Index]; !known {
			a.world.fault("%s: %d comes behind a snapshot up to %d", a.name, e.Index, a.at.index)
		}
		return
	}
	sum := sha256.Sum256([]byte(a.at.digest + entry))
	a.at = mark{index: e.Index, digest: hex.EncodeToString(sum[:8])}
	a.marks[e.Index] = a.at
	var change messages.LogEntry
	if err := proto.Unmarshal(e.Entry, &change); err != nil {
		a.world.fault("%s: entry %d: %v", a.name, e.Index, err)
	}
	for _, c := range change.Changes {
		a.files[c.GetUpdate().Path] = string(c.GetUpdate().Content)
	}
}

// restore takes a part of a snapshot.
func (l *listener) restore(m *messages.LogRestore) {
	a := l.app
	if m.Part != a.parts+1 {
		a.world.fault("%s: part %d of a snapshot after %d", a.name, m.Part, a.parts)
	}
	a.parts = m.Part
	if m.Part == 1 {
		a.incoming, a.memory = map[string]string{}, string(m.State)
	}
	for _, f := range m.Files {
		if _, twice := a.incoming[f.Path]; twice {
			a.world.fault("%s: %s is twice in a snapshot", a.name, f.Path)
		}
		a.incoming[f.Path] = string(f.Content)
	}
	if m.Last {
		a.files, a.parts = a.incoming, 0
		a.at, a.marks = mark{}, map[uint64]mark{}
		if index, digest, ok := strings.Cut(a.memory, " "); ok {
			a.at.digest = digest
			if _, err := fmt.Sscan(index, &a.at.index); err != nil {
				a.world.fault("%s: a snapshot has the state %q", a.name, a.memory)
			}
		}
		l.last = a.at.index
		a.restored++
	}
	a.node.Log.Restored(m.Part)
}

// copy is the application's files, for a snapshot.
func (a *app) copy() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.files)
}

// see looks at the application.
func (a *app) see(f func(*app) bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return f(a)
}
