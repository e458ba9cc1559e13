package sched

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// model decides as State does, in the simplest way: it keeps all reports, and computes each result from them.
type model struct {
	*designed
	settings   Settings
	candidates map[job.ID]Candidate
	running    map[job.ID]*modelJob
	held       map[job.ID]bool
	real       map[lock.Owner]*modelReal
	seen       []seen
}

type modelJob struct {
	limits        []Limit
	atHand, later lock.Declaration
}

type modelReal struct {
	held, pending []lock.Item
	reached       int // the highest level since the opcode began, or -1
}

type seen struct {
	id   job.ID
	tick int64
}

func newModel(d *designed, s Settings) *model {
	return &model{
		d, s, map[job.ID]Candidate{}, map[job.ID]*modelJob{}, map[job.ID]bool{}, map[lock.Owner]*modelReal{}, nil,
	}
}

func (m *model) tick(us int64) int64 {
	return int64(math.Floor(float64(us) / float64(m.settings.Tick.Microseconds())))
}

func (m *model) setSettings(s Settings) {
	if former := m.settings; s.Tick != former.Tick {
		m.settings, m.seen = s, nil
		for id, c := range m.candidates {
			m.seen = append(m.seen, seen{id, m.tick(c.ReceivedUs)})
		}
	}
	m.settings = s
}

func (m *model) enqueue(c Candidate) {
	if m.running[c.ID] != nil {
		return
	}
	m.candidates[c.ID] = c
	m.seen = append(m.seen, seen{c.ID, m.tick(c.ReceivedUs)})
}

func (m *model) runningJob(c Candidate) {
	if m.running[c.ID] != nil {
		return
	}
	delete(m.candidates, c.ID)
	delete(m.held, c.ID)
	m.start(c.ID, c.Limits, c.Declared)
}

func (m *model) start(id job.ID, limits []Limit, d lock.Declaration) {
	m.running[id] = &modelJob{limits: limits, atHand: d}
	m.opcodeBegins(id)
}

func (m *model) opcodeBegins(id job.ID) {
	if r := m.real[jobOwnerKey(id)]; r != nil {
		r.reached = r.highest()
	}
}

func (m *model) yield(id job.ID) {
	if m.running[id] != nil {
		m.held[id] = true
		delete(m.running, id)
	}
}

func (m *model) leave(id job.ID) {
	delete(m.candidates, id)
	delete(m.running, id)
	delete(m.held, id)
	delete(m.real, jobOwnerKey(id))
}

func (m *model) setLimits(id job.ID, limits []Limit) {
	if j := m.running[id]; j != nil {
		j.limits = limits
	}
}

func (m *model) setDeclared(id job.ID, atHand, later lock.Declaration) {
	if j := m.running[id]; j != nil {
		j.atHand, j.later = atHand, later
		m.opcodeBegins(id)
	}
}

func (m *model) setOwnerLocks(o lock.Owner, held []lock.Item, pending lock.Request) {
	r := &modelReal{held, pending, -1}
	if was := m.real[o]; was != nil && r.highest() >= 0 {
		r.reached = was.reached
	}
	r.reached = max(r.reached, r.highest())
	m.real[o] = r
}

func (r *modelReal) highest() int {
	highest := -1
	for _, i := range slices.Concat(r.held, r.pending) {
		if i.Mode != lock.None && i.Lock.Level() != lock.Config {
			highest = max(highest, int(i.Lock.Level()))
		}
	}
	return highest
}

// column is the claim of one active owner at a level.
type column struct {
	known lock.DemandKind
	names []string
}

// columns are the claims with which candidates are compared at a level, and whether any owner holds or will ask for the
// big lock.
func (m *model) columns(level lock.Level) (columns []column, big bool) {
	parties := map[lock.Owner]bool{}
	for o := range m.real {
		parties[o] = true
	}
	for id := range m.running {
		parties[jobOwnerKey(id)] = true
	}
	for o := range parties {
		var mine []column
		reached := -1
		if r := m.real[o]; r != nil {
			reached = r.reached
			for _, i := range slices.Concat(r.held, r.pending) {
				big = big || i.Lock.Level() == lock.Cluster && i.Mode == lock.Exclusive
				if i.Lock.Level() == level && i.Mode != lock.None {
					mine = append(mine, columnOf(i))
				}
			}
		}
		j := m.running[o.Job]
		if o.Named {
			j = nil
		}
		if j != nil {
			wants := []lock.Demand{*j.later.At(level)}
			if reached < int(level) {
				wants = append(wants, *j.atHand.At(level))
			}
			for _, w := range wants {
				if w.Kind != lock.Nothing {
					mine = append(mine, column{w.Kind, w.Names})
				}
			}
			big = big || j.later.BGL || j.atHand.BGL && reached < int(lock.Cluster)
			if len(mine) == 0 {
				mine = []column{{}}
			}
		}
		columns = append(columns, mine...)
	}
	return columns, big
}

func columnOf(i lock.Item) column {
	set, all := lock.SharedSet, lock.AllShared
	if i.Mode == lock.Exclusive {
		set, all = lock.ExclusiveSet, lock.AllExclusive
	}
	if i.Lock.IsGroup() {
		return column{known: all}
	}
	for _, name := range testNames {
		if lock.Member(i.Lock.Level(), name) == i.Lock {
			return column{set, []string{name}}
		}
	}
	panic("unknown name")
}

// bigLockValue is the value of the big lock: the largest value, at each of Ganeti's levels.
const bigLockValue = 15

// static is the predictive value.
func (m *model) static(d lock.Declaration) float64 {
	value := float64(m.settings.Base)
	if d.BGL {
		return value + bigLockValue
	}
	for k, w := range d.Demands {
		columns, big := m.columns(lock.DemandLevel(k))
		if big {
			return float64(m.settings.Base) + bigLockValue
		}
		value += m.worst(w, columns)
	}
	return value
}

func (m *model) worst(w lock.Demand, columns []column) float64 {
	value := 0.0
	for _, c := range columns {
		cell := m.designed[w.Kind][c.known]
		if slices.ContainsFunc(w.Names, func(n string) bool { return slices.Contains(c.names, n) }) {
			value = max(value, cell.overlap)
		} else {
			value = max(value, cell.apart)
		}
	}
	return value
}

func (m *model) age(c Candidate, now time.Time) int64 {
	tick := m.tick(c.ReceivedUs)
	for _, s := range m.seen {
		if s.id >= c.ID {
			tick = min(tick, s.tick)
		}
	}
	return max(m.tick(now.UnixMicro())-tick, 0)
}

// order is all candidates in the order in which they are picked. Weights are rounded to sums of the values of
// designs.md "Job promotion algorithm".
func (m *model) order(now time.Time) []Candidate {
	weight := map[job.ID]int64{}
	for id, c := range m.candidates {
		if m.settings.Order == Weights {
			k := int64(m.settings.K)
			weight[id] = int64(math.Round(10*m.static(c.Declared))) * max(0, k-m.age(c, now))
		}
	}
	return slices.SortedFunc(maps.Values(m.candidates), func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(weight[a.ID], weight[b.ID]), cmp.Compare(a.ID, b.ID))
	})
}

// full are the limits that block a candidate.
func (m *model) full(c Candidate) []FullLimit {
	var full []FullLimit
	for _, l := range c.Limits {
		carried := 0
		for _, limits := range m.carried() {
			if slices.ContainsFunc(limits, func(k Limit) bool { return k.Key == l.Key }) {
				carried++
			}
		}
		if carried >= l.N {
			full = append(full, FullLimit{l, carried})
		}
	}
	return full
}

func (m *model) carried() [][]Limit {
	var all [][]Limit
	for _, j := range m.running {
		all = append(all, j.limits)
	}
	return all
}

func (m *model) pick(now time.Time) []job.ID {
	var picked []job.ID
	for len(m.running) < m.settings.Slots {
		order := m.order(now)
		at := slices.IndexFunc(order, func(c Candidate) bool { return len(m.full(c)) == 0 })
		if at < 0 {
			break
		}
		c := order[at]
		delete(m.held, c.ID)
		delete(m.candidates, c.ID)
		m.start(c.ID, c.Limits, c.Declared)
		picked = append(picked, c.ID)
	}
	return picked
}
