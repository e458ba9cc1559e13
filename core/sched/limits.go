package sched

import (
	"cmp"
	"slices"
	"strconv"
)

// limits counts who carries what, and holds each set of limits once that a group
// carries. Set 0 is the empty one.
type limits struct {
	counters map[string]*counter
	sets     arena[limitSet]
	known    map[string]int32 // by limitSet.key
	full     []bool           // by set; valid unless stale
	stale    bool
	scratch  []byte
}

// counter is a key. It is known as long as sets or running jobs refer to it.
type counter struct {
	key     string
	carried int // by jobs whose processes live
	refs    int
}

// limitSet is what the jobs of some groups carry, by key.
type limitSet struct {
	key   string
	gates []gate
	refs  int // groups
}

type gate struct {
	*counter
	n int
}

func newLimits() limits {
	return limits{counters: map[string]*counter{}, known: map[string]int32{}, full: []bool{false}}
}

// sorted is the list by key, each key once and with its smallest number.
func sorted(list []Limit) []Limit {
	if len(list) > 1 {
		list = slices.Clone(list)
		slices.SortFunc(list, func(a, b Limit) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.N, b.N)) })
		list = slices.CompactFunc(list, func(a, b Limit) bool { return a.Key == b.Key })
	}
	return list
}

// set finds or makes the set for a list. Whoever keeps it refers to it.
func (l *limits) set(list []Limit) int32 {
	if len(list) == 0 {
		return 0
	}
	list = sorted(list)
	l.scratch = l.scratch[:0]
	for _, limit := range list {
		l.scratch = append(strconv.AppendInt(l.scratch, int64(limit.N), 10), ' ')
		l.scratch = append(strconv.AppendInt(l.scratch, int64(len(limit.Key)), 10), ' ')
		l.scratch = append(l.scratch, limit.Key...)
	}
	if at, known := l.known[string(l.scratch)]; known {
		return at
	}
	set := limitSet{key: string(l.scratch), gates: make([]gate, len(list))}
	for i, limit := range list {
		set.gates[i] = gate{l.counter(limit.Key), limit.N}
	}
	at := l.sets.take()
	l.sets.all[at] = set
	l.known[set.key] = at
	l.stale = true
	return at
}

func (l *limits) refer(set int32) {
	if set != 0 {
		l.sets.all[set].refs++
	}
}

func (l *limits) drop(set int32) {
	if set == 0 {
		return
	}
	s := &l.sets.all[set]
	if s.refs--; s.refs > 0 {
		return
	}
	for _, g := range s.gates {
		l.release(g.counter)
	}
	delete(l.known, s.key)
	l.sets.give(set)
}

// counter finds or makes one, and counts one reference more to it.
func (l *limits) counter(key string) *counter {
	c := l.counters[key]
	if c == nil {
		c = &counter{key: key}
		l.counters[key] = c
	}
	c.refs++
	return c
}

func (l *limits) release(c *counter) {
	if c.refs--; c.refs == 0 {
		delete(l.counters, c.key)
	}
}

// occupy counts a job that carries a list, until vacate.
func (l *limits) occupy(list []Limit) []*counter {
	if len(list) == 0 {
		return nil
	}
	list = sorted(list)
	carries := make([]*counter, len(list))
	for i, limit := range list {
		carries[i] = l.counter(limit.Key)
		carries[i].carried++
	}
	l.stale = true
	return carries
}

// occupySet is occupy for what a set lists.
func (l *limits) occupySet(set int32) []*counter {
	if set == 0 {
		return nil
	}
	gates := l.sets.all[set].gates
	carries := make([]*counter, len(gates))
	for i, g := range gates {
		carries[i] = g.counter
		g.refs++
		g.carried++
	}
	l.stale = true
	return carries
}

func (l *limits) vacate(carries []*counter) {
	for _, c := range carries {
		c.carried--
		l.release(c)
		l.stale = true
	}
}

// settle finds out which sets are full. There are as many as there are ways to be
// limited, which is few; at worst one for each group.
func (l *limits) settle() {
	if !l.stale {
		return
	}
	l.stale = false
	l.full = slices.Grow(l.full[:0], len(l.sets.all))[:max(1, len(l.sets.all))]
	for i := range l.full {
		l.full[i] = i > 0 && slices.ContainsFunc(l.sets.all[i].gates, gate.full)
	}
}

func (g gate) full() bool { return g.carried >= g.n }

// Exceeded tells whether more jobs run that carry one of these than it allows: some
// that were found running had given their places away.
func (s *State) Exceeded(list []Limit) bool {
	return slices.ContainsFunc(list, func(l Limit) bool {
		c := s.groups.limits.counters[l.Key]
		return c != nil && c.carried > l.N
	})
}
