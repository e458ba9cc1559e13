package sched

import (
	"cmp"
	"slices"
	"strconv"
)

// limits counts the running jobs that carry each key, and holds each set of limits once that a group carries. Set 0 is
// the empty one.
type limits struct {
	counters map[string]*counter
	sets     arena[limitSet]
	byKey    map[string]int32 // by limitSet.key
	full     []bool           // by set; valid unless stale
	stale    bool
	scratch  []byte
}

// counter is one key. It exists as long as sets, running jobs or marked jobs refer to it.
type counter struct {
	key     string
	running int // jobs with a process that carry the key
	marked  int // marked jobs that do (marks.go)
	refs    int
}

// limitSet is the limits that the jobs of some groups carry, by key.
type limitSet struct {
	key    string
	bounds []bound
	refs   int // groups
}

// bound is one limit of a set: a counter, and how many jobs may run that carry its key.
type bound struct {
	*counter
	n int
}

func newLimits() limits {
	return limits{counters: map[string]*counter{}, byKey: map[string]int32{}, full: []bool{false}}
}

// sortedByKey is the list by key, each key once and with its smallest number.
func sortedByKey(list []Limit) []Limit {
	if len(list) > 1 {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b Limit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.N, b.N)) })
		list = slices.CompactFunc(list, func(a, b Limit) bool { return a.Key == b.Key })
	}
	return list
}

// setOf finds or makes the set for a list. The caller adds a reference if it keeps the set.
func (l *limits) setOf(list []Limit) int32 {
	if len(list) == 0 {
		return 0
	}
	list = sortedByKey(list)
	l.scratch = l.scratch[:0]
	for _, limit := range list {
		l.scratch = append(strconv.AppendInt(l.scratch, int64(limit.N), 10), ' ')
		l.scratch = append(strconv.AppendInt(l.scratch, int64(len(limit.Key)), 10), ' ')
		l.scratch = append(l.scratch, limit.Key...)
	}
	if at, known := l.byKey[string(l.scratch)]; known {
		return at
	}
	set := limitSet{key: string(l.scratch), bounds: make([]bound, len(list))}
	for i, limit := range list {
		set.bounds[i] = bound{l.counterOf(limit.Key), limit.N}
	}
	at := l.sets.alloc()
	l.sets.items[at] = set
	l.byKey[set.key] = at
	l.stale = true
	return at
}

func (l *limits) addRef(set int32) {
	if set != 0 {
		l.sets.items[set].refs++
	}
}

func (l *limits) dropRef(set int32) {
	if set == 0 {
		return
	}
	s := &l.sets.items[set]
	if s.refs--; s.refs > 0 {
		return
	}
	for _, g := range s.bounds {
		l.dropCounterRef(g.counter)
	}
	delete(l.byKey, s.key)
	l.sets.release(set)
}

// counterOf finds or makes the counter of a key, and adds a reference to it.
func (l *limits) counterOf(key string) *counter {
	c := l.counters[key]
	if c == nil {
		c = &counter{key: key}
		l.counters[key] = c
	}
	c.refs++
	return c
}

func (l *limits) dropCounterRef(c *counter) {
	if c.refs--; c.refs == 0 {
		delete(l.counters, c.key)
	}
}

// occupy counts a running job in each limit of a list, and returns the counters, which vacate decreases when the job ends.
func (l *limits) occupy(list []Limit) []*counter {
	if len(list) == 0 {
		return nil
	}
	list = sortedByKey(list)
	occupied := make([]*counter, len(list))
	for i, limit := range list {
		occupied[i] = l.counterOf(limit.Key)
		occupied[i].running++
	}
	l.stale = true
	return occupied
}

// occupySet counts a job that starts in each limit of its set, and returns the counters for vacate. Each counter gets a reference, so it
// outlives the set.
func (l *limits) occupySet(set int32) []*counter {
	if set == 0 {
		return nil
	}
	gates := l.sets.items[set].bounds
	occupied := make([]*counter, len(gates))
	for i, g := range gates {
		occupied[i] = g.counter
		g.refs++
		g.running++
	}
	l.stale = true
	return occupied
}

func (l *limits) vacate(occupied []*counter) {
	for _, c := range occupied {
		c.running--
		l.dropCounterRef(c)
		l.stale = true
	}
}

// mark counts a marked job that carries the limits of a set, until unmark.
func (l *limits) mark(set int32) []*counter {
	var marked []*counter
	for _, limit := range l.boundsOf(set) {
		limit.refs++
		limit.marked++
		marked = append(marked, limit.counter)
	}
	return marked
}

func (l *limits) unmark(marked []*counter) {
	for _, c := range marked {
		c.marked--
		l.dropCounterRef(c)
	}
}

// updateFull computes which sets are full. There are few sets; at worst one for each group.
func (l *limits) updateFull() {
	if !l.stale {
		return
	}
	l.stale = false
	l.full = slices.Grow(l.full[:0], len(l.sets.items))[:max(1, len(l.sets.items))]
	for i := range l.full {
		l.full[i] = i > 0 && slices.ContainsFunc(l.sets.items[i].bounds, bound.full)
	}
}

// boundsOf are the limits of a set.
func (l *limits) boundsOf(set int32) []bound {
	if set == 0 {
		return nil
	}
	return l.sets.items[set].bounds
}

func (g bound) full() bool { return g.running >= g.n }
