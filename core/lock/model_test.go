package lock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// model implements locks.md 1.5 and 1.6 in the simplest way, at any cost.
type model struct {
	hierarchy Hierarchy
	held      map[Owner]map[Lock]Mode
	pending   []Pending
	// index is the smallest blocker when a request was last tried. Only rounds uses it.
	index   map[Owner]Owner
	revisit func(m *model, changed Owner) []Owner
}

func newModel(d domain, revisit func(*model, Owner) []Owner) *model {
	return &model{hierarchy: d.hierarchy, held: map[Owner]map[Lock]Mode{}, index: map[Owner]Owner{}, revisit: revisit}
}

func (m *model) related(a, b Lock) bool {
	return a == b || slices.Contains(m.hierarchy(a), b) || slices.Contains(m.hierarchy(b), a)
}

func (m *model) update(o Owner, req Request) ([]Owner, error) {
	for _, i := range req {
		for _, k := range req {
			if i.Lock == k.Lock && i.Mode != k.Mode {
				return nil, errors.New("Inconsitent requests for lock " + i.Lock.ganetiName())
			}
		}
	}
	own := m.held[o]
	if len(own) > 0 {
		greatest := slices.MaxFunc(slices.Collect(maps.Keys(own)), Lock.Compare)
		for _, i := range req {
			covered := i.Mode == None || own[i.Lock] >= i.Mode
			for _, g := range m.hierarchy(i.Lock) {
				covered = covered || own[g] >= i.Mode
			}
			if i.Lock.Compare(greatest) < 0 && !covered {
				return nil, fmt.Errorf("Order violation: requesting %s while holding %s", i.Lock.ganetiName(), greatest.ganetiName())
			}
		}
	}
	for _, i := range req {
		for _, g := range m.hierarchy(i.Lock) {
			if i.Mode == Exclusive && own[g] == Shared {
				return nil, fmt.Errorf("Order violation: requesting exclusively %s while holding a shared lock on the group lock %s it belongs to.",
					i.Lock.ganetiName(), g.ganetiName())
			}
		}
	}
	blockers := m.blockers(o, req)
	if len(blockers) > 0 {
		return blockers, nil
	}
	after := maps.Clone(own)
	if after == nil {
		after = map[Lock]Mode{}
	}
	for _, i := range req {
		if after[i.Lock] = i.Mode; i.Mode == None {
			delete(after, i.Lock)
		}
	}
	m.held[o] = after
	return nil, nil
}

func (m *model) blockers(o Owner, req Request) []Owner {
	var blockers []Owner
	for other, held := range m.held {
		if other == o {
			continue
		}
		blocks := false
		for _, i := range req {
			for l, mode := range held {
				blocks = blocks || i.Mode != None && m.related(i.Lock, l) && (i.Mode == Exclusive || mode == Exclusive)
			}
		}
		if blocks {
			blockers = append(blockers, other)
		}
	}
	slices.SortFunc(blockers, Owner.Compare)
	return blockers
}

func (m *model) waits(o Owner) int {
	return slices.IndexFunc(m.pending, func(p Pending) bool { return p.Owner == o })
}

func (m *model) remove(o Owner) {
	if k := m.waits(o); k >= 0 {
		m.pending = slices.Delete(slices.Clone(m.pending), k, k+1)
	}
}

func (m *model) enqueue(p Pending, blockers []Owner) {
	m.pending = append(slices.Clone(m.pending), p)
	slices.SortFunc(m.pending, func(a, b Pending) int { return a.Compare(&b) })
	m.index[p.Owner] = blockers[0]
}

// firstGrantable is the order in which State tries pending requests again.
func firstGrantable(m *model, _ Owner) []Owner {
	var granted []Owner
	for again := true; again; {
		again = false
		for _, p := range m.pending {
			if blockers, err := m.update(p.Owner, p.Request); err == nil && len(blockers) == 0 {
				m.remove(p.Owner)
				granted = append(granted, p.Owner)
				again = true
				break
			}
		}
	}
	return granted
}

// rounds is the order in which locks.md 1.6 tries pending requests again, with the index.
func rounds(m *model, changed Owner) []Owner {
	var granted []Owner
	for todo := []Owner{changed}; len(todo) > 0; {
		var again []Pending
		for _, p := range m.pending {
			if slices.Contains(todo, m.index[p.Owner]) {
				again = append(again, p)
			}
		}
		todo = nil
		for _, p := range again {
			m.remove(p.Owner)
			blockers, err := m.update(p.Owner, p.Request)
			switch {
			case err != nil:
			case len(blockers) > 0:
				m.enqueue(p, blockers)
			default:
				todo = append(todo, p.Owner)
				granted = append(granted, p.Owner)
			}
		}
	}
	return granted
}

func (m *model) ask(p Pending, wait bool) (Update, error) {
	if m.waits(p.Owner) >= 0 {
		return Update{}, ErrPending
	}
	if !slices.ContainsFunc(p.Request, func(i Item) bool { return m.held[p.Owner][i.Lock] != i.Mode }) {
		return Update{Granted: true}, nil
	}
	blockers, err := m.update(p.Owner, p.Request)
	switch {
	case err != nil:
		return Update{}, err
	case len(blockers) == 0:
		notify := m.revisit(m, p.Owner)
		slices.SortFunc(notify, Owner.Compare)
		return Update{Granted: true, Notify: notify}, nil
	case wait:
		m.enqueue(p, blockers)
	}
	return Update{Blockers: blockers}, nil
}

func (m *model) give(o Owner, mode Mode, match func(Lock) bool) (Update, error) {
	m.remove(o)
	req := Request{}
	for l := range m.held[o] {
		if match(l) {
			req = append(req, Item{l, mode})
		}
	}
	return m.ask(Pending{Owner: o, Request: req}, false)
}

func (m *model) union(op operation) []Lock {
	var wanted []Item
	for _, i := range op.items {
		if m.held[op.owner][i.Lock] < i.Mode {
			wanted = append(wanted, i)
		}
	}
	slices.SortFunc(wanted, Item.Compare)
	before := maps.Clone(m.held)
	var got []Lock
	for _, i := range wanted {
		if u, err := m.ask(Pending{Owner: op.owner, Request: Request{i}}, false); err == nil && u.Granted {
			got = append([]Lock{i.Lock}, got...)
		}
	}
	if len(got) < op.least {
		m.held = before
		return nil
	}
	return got
}

func (m *model) do(op operation) string {
	p := Pending{op.priority, op.owner, op.items}
	level := op.items[0].Lock.level
	switch op.verb {
	case "try":
		return shown(m.ask(p, false))
	case "wait":
		return shown(m.ask(p, true))
	case "safe":
		if k := m.waits(op.owner); k >= 0 && slices.Equal(m.pending[k].Request, op.items) {
			return shown(Update{Blockers: m.blockers(op.owner, op.items)}, nil)
		}
		return shown(m.ask(p, true))
	case "remove":
		m.remove(op.owner)
		return shown(Update{Granted: true}, nil)
	case "release":
		return shown(m.give(op.owner, None, func(Lock) bool { return true }))
	case "intersect":
		return shown(m.give(op.owner, None, func(l Lock) bool { return !slices.Contains(op.locks(), l) }))
	case "free":
		return shown(m.give(op.owner, None, func(l Lock) bool { return l.level == level }))
	case "downgrade":
		return shown(m.give(op.owner, Shared, func(l Lock) bool { return l.level == level }))
	default:
		return fmt.Sprint("obtained ", names(m.union(op)))
	}
}

func (m *model) snapshot() Snapshot {
	var snap Snapshot
	for o, held := range m.held {
		var items []Item
		for l, mode := range held {
			items = append(items, Item{l, mode})
		}
		if slices.SortFunc(items, Item.Compare); len(items) > 0 {
			snap.Holdings = append(snap.Holdings, Holding{o, items})
		}
	}
	slices.SortFunc(snap.Holdings, func(a, b Holding) int { return a.Owner.Compare(b.Owner) })
	snap.Pending = append([]Pending{}, m.pending...)
	return snap
}

// releases reports whether a grant of the request would release a lock of its owner.
func (m *model) releases(op operation) bool {
	return slices.ContainsFunc(op.items, func(i Item) bool { return i.Mode < m.held[op.owner][i.Lock] })
}

// compareWithModel does the same operations on a State and on the model.
func compareWithModel(t *rapid.T, s *State, d domain, m *model, owners int, allowed func(operation) bool) {
	base, journal := Snapshot{}, []byte(nil)
	t.Repeat(map[string]func(*rapid.T){
		"": func(t *rapid.T) {
			inspect(t, s)
			require.Equal(t, m.snapshot(), s.Snapshot())
			replayed, err := Replay(base, journal)
			require.NoError(t, err)
			require.Equal(t, Encode(s.Snapshot()), Encode(replayed.Snapshot))
		},
		"operation": func(t *rapid.T) {
			op := drawOperation(t, d, owners)
			if !allowed(op) {
				t.Skip("not allowed")
			}
			answer, changed := op.on(s)
			require.Equal(t, m.do(op), answer)
			for _, o := range changed {
				journal = AppendRecord(journal, s.Record(o))
			}
		},
		"fold": func(*rapid.T) { base, journal = s.Snapshot(), nil },
	})
}

// For any operations, answers, notifications, state and journal are those of the model.
func TestStateIsLikeTheModel(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		compareWithModel(t, New(Settings{Hierarchy: d.hierarchy}), d, newModel(d, firstGrantable), 5, func(operation) bool { return true })
	})
}

// If no pending request releases a lock, the order of grants is exactly that of locks.md 1.6, with rounds and index.
func TestRevisitingIsThatOfRounds(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		m := newModel(d, rounds)
		compareWithModel(t, New(Settings{Hierarchy: d.hierarchy}), d, m, 6, func(op operation) bool {
			return op.verb != "wait" && op.verb != "safe" || !m.releases(op)
		})
	})
}

// With three owners, as in Ganeti's tests, this holds for all operations.
func TestRevisitingIsThatOfRoundsForThreeOwners(t *testing.T) {
	onBoth(t, func(t *rapid.T, d domain) {
		compareWithModel(t, New(Settings{Hierarchy: d.hierarchy}), d, newModel(d, rounds), 3, func(operation) bool { return true })
	})
}
