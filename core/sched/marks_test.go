package sched

import (
	"cmp"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// twins are two States that get the same calls. The marks of one are compared with a list.
type twins struct {
	marked, plain *State
	now           time.Time
	known         map[job.ID]Candidate // with its present opcode
	marks         []job.ID
}

func (w *twins) both(call func(*State)) {
	call(w.marked)
	call(w.plain)
}

// unmark is what is told of a job that leaves the candidates.
func (w *twins) unmark(id job.ID) {
	w.marks = slices.DeleteFunc(w.marks, func(other job.ID) bool { return other == id })
}

func (w *twins) pick(t *rapid.T) {
	for again := true; again; again = w.plain.Unfinished() {
		picked := w.plain.Pick(w.now)
		require.Equal(t, picked, w.marked.Pick(w.now))
		require.Equal(t, w.plain.Unfinished(), w.marked.Unfinished())
		for _, id := range picked {
			w.unmark(id)
		}
	}
	require.Equal(t, w.plain.Wake(), w.marked.Wake())
	if rapid.Bool().Draw(t, "marks") {
		require.Equal(t, w.next(), w.marked.MarkBlocked())
	}
	for id := range w.known {
		mine, is := w.plain.Explain(id, w.now, 100)
		its, also := w.marked.Explain(id, w.now, 100)
		require.Equal(t, is, also)
		require.Equal(t, mine, its)
		require.Equal(t, slices.Contains(w.marks, id), w.marked.HasMark(id))
		require.False(t, w.plain.HasMark(id))
	}
	for _, b := range w.marked.MarkedByLocks() {
		require.Contains(t, w.marks, b.ID)
	}
}

// next goes through all candidates in the order of their starts, and counts.
func (w *twins) next() (marked []job.ID) {
	s := w.marked
	reserved := func(id job.ID) int {
		aged := expectedOf(s).reserved.aged
		if at := slices.IndexFunc(aged, func(a *reservation) bool { return a.id == id }); at >= 0 {
			return at
		}
		return len(aged)
	}
	ids := s.First(len(w.known), w.now)
	slices.SortStableFunc(ids, func(a, b job.ID) int {
		return cmp.Or(cmp.Compare(w.known[a].Priority, w.known[b].Priority), cmp.Compare(reserved(a), reserved(b)))
	})
	for _, id := range ids {
		if s.Yielded(id) || slices.Contains(w.marks, id) || len(s.running)+len(w.marks) >= s.settings.Slots || w.limited(id) {
			continue
		}
		w.marks, marked = append(w.marks, id), append(marked, id)
	}
	return marked
}

// limited reports whether processes and marks take all places in a limit of a job.
func (w *twins) limited(id job.ID) bool {
	return slices.ContainsFunc(w.known[id].Limits, func(l Limit) bool {
		taken := 0
		for _, other := range slices.Concat(w.marks, w.marked.RunningIDs()) {
			if slices.ContainsFunc(w.known[other].Limits, func(k Limit) bool { return k.Key == l.Key }) {
				taken++
			}
		}
		return taken >= l.N
	})
}

// The same jobs start, wait and reserve with marks and without. Marks are given in the order of starts while there is room.
func TestMarksChangeNoDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := genSettings.Draw(t, "settings")
		settings.Order, settings.Ageing, settings.ReserveAfter = Expected, rapid.IntRange(1, 30).Draw(t, "ageing"), time.Duration(rapid.IntRange(0, 20).Draw(t, "reserve"))*time.Second
		w := &twins{NewState(settings), NewState(settings), time.Unix(20, 0), map[job.ID]Candidate{}, nil}
		next, released := job.ID(0), []job.ID{}
		anyOf := func(t *rapid.T, ids []job.ID, act func(id job.ID)) {
			if len(ids) > 0 {
				act(rapid.SampledFrom(ids).Draw(t, "id"))
			}
		}
		enqueue := func(t *rapid.T) {
			next++
			c := Candidate{ID: next, Priority: genPriority.Draw(t, "priority"), ReceivedUs: w.now.UnixMicro(), Declared: genDeclared.Draw(t, "declared"),
				Expected: time.Duration(rapid.IntRange(0, 20_000).Draw(t, "expected")) * time.Millisecond, Limits: genLimits.Draw(t, "limits")}
			w.known[c.ID] = c
			w.both(func(s *State) { s.Enqueue(c) })
		}
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": enqueue, "enqueue more": enqueue,
			"withdraw": func(t *rapid.T) {
				anyOf(t, w.plain.First(30, w.now), func(id job.ID) {
					w.both(func(s *State) { s.Withdraw(id) })
					w.unmark(id)
				})
			},
			"change": func(t *rapid.T) {
				anyOf(t, w.plain.First(30, w.now), func(id job.ID) {
					c := w.known[id]
					c.Priority, c.Limits = genPriority.Draw(t, "priority"), genLimits.Draw(t, "limits")
					w.known[id] = c
					w.both(func(s *State) { s.Enqueue(c) })
				})
			},
			"release": func(t *rapid.T) { // as the queue does to change a job
				anyOf(t, w.plain.First(30, w.now), func(id job.ID) {
					if !w.plain.Yielded(id) {
						w.both(func(s *State) { s.Release(id) })
						released = append(released, id)
					}
				})
			},
			"come back": func(t *rapid.T) {
				anyOf(t, released, func(id job.ID) {
					released = slices.DeleteFunc(released, func(other job.ID) bool { return other == id })
					if rapid.IntRange(0, 3).Draw(t, "ends") == 0 {
						delete(w.known, id)
						w.both(func(s *State) { s.Remove(id) })
						w.unmark(id)
						return
					}
					c := w.known[id]
					c.Priority, c.Limits = genPriority.Draw(t, "priority"), genLimits.Draw(t, "limits")
					w.known[id] = c
					w.both(func(s *State) { s.Enqueue(c) })
				})
			},
			"end": func(t *rapid.T) {
				anyOf(t, w.plain.RunningIDs(), func(id job.ID) {
					delete(w.known, id)
					w.both(func(s *State) { s.Remove(id) })
				})
			},
			"next opcode": func(t *rapid.T) {
				anyOf(t, w.plain.RunningIDs(), func(id job.ID) {
					c := w.known[id]
					c.Declared = genDeclared.Draw(t, "next")
					w.known[id] = c
					w.both(func(s *State) { s.SetOwnerLocks(jobOwnerKey(id), nil, nil) })
					gives := w.plain.GivesSlotBack(c, w.now)
					require.Equal(t, gives, w.marked.GivesSlotBack(c, w.now))
					if gives {
						w.both(func(s *State) { s.Yield(id); s.Enqueue(c) })
					}
				})
			},
			"takes": func(t *rapid.T) {
				for _, id := range w.plain.RunningIDs() {
					w.both(func(s *State) { s.SetOwnerLocks(jobOwnerKey(id), itemsOf(w.known[id].Declared), nil) })
				}
			},
			"outside": func(t *rapid.T) {
				items := slices.DeleteFunc(genItems.Draw(t, "outside"), func(i lock.Item) bool { return i.Mode == lock.None || i.Lock == lock.ConfigLock })
				w.both(func(s *State) { s.SetOwnerLocks(wconfd, items, nil) })
			},
			"settings": func(t *rapid.T) {
				settings.Slots = rapid.IntRange(1, 8).Draw(t, "slots")
				w.both(func(s *State) { s.SetSettings(settings) })
			},
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 8_000).Draw(t, "ms")) * time.Millisecond)
			},
			"pick": w.pick,
		})
		for _, id := range slices.Collect(maps.Keys(w.known)) {
			w.both(func(s *State) { s.Remove(id) })
		}
		require.Equal(t, newMarks(), w.marked.marks)
		require.Empty(t, w.marked.groups.limits.counters)
	})
}
