package sched

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// listed is what a test knows of the order Expected: lists, which it goes through from beginning to end.
type listed struct {
	*State
	now        time.Time
	candidates map[job.ID]Candidate
	running    map[job.ID]Candidate
	outside    []lock.Item // of an owner that is no job
	began      map[job.ID]time.Time
	latest     time.Time // the latest time at which a running job was ever expected to end
}

func expectedOf(s *State) *expected { return s.order.(*expected) }

// itemsOf are the locks of a declaration, from its names alone.
func itemsOf(d lock.Declaration) []lock.Item {
	if d.BGL {
		return []lock.Item{{Lock: lock.BGL, Mode: lock.Exclusive}}
	}
	var items []lock.Item
	locks := false
	for k, w := range d.Demands {
		locks = locks || w.Kind != lock.Nothing && (lock.DemandLevel(k) != lock.Free || w.Kind != lock.AllShared && w.Kind != lock.AllExclusive)
		level, mode := lock.DemandLevel(k), lock.Shared
		if w.Kind >= lock.ExclusiveSet {
			mode = lock.Exclusive
		}
		if level != lock.Free && (w.Kind == lock.AllShared || w.Kind == lock.AllExclusive) {
			items = append(items, lock.Item{Lock: lock.Group(level), Mode: mode})
		}
		for _, name := range w.Names {
			items = append(items, lock.Item{Lock: lock.Member(level, name), Mode: mode})
		}
	}
	if locks {
		items = append(items, bgl)
	}
	return items
}

func excludes(a, b []lock.Item) bool {
	for _, x := range a {
		for _, y := range b {
			levelX, nameX, _ := strings.Cut(x.Lock.String(), "/")
			levelY, nameY, _ := strings.Cut(y.Lock.String(), "/")
			same := nameX == nameY || nameX == "[lockset]" || nameY == "[lockset]"
			if levelX == levelY && same && max(x.Mode, y.Mode) == lock.Exclusive {
				return true
			}
		}
	}
	return false
}

// taken reports whether a job, or the other owner, is in the way of a candidate.
func (l *listed) taken(c Candidate) bool {
	items := itemsOf(c.Declared)
	for id, r := range l.running {
		if id != c.ID && excludes(items, itemsOf(r.Declared)) {
			return true
		}
	}
	return excludes(items, l.outside)
}

func (l *listed) limited(c Candidate) bool {
	return slices.ContainsFunc(c.Limits, func(k Limit) bool {
		carried := 0
		for _, r := range l.running {
			if slices.ContainsFunc(r.Limits, func(other Limit) bool { return other.Key == k.Key }) {
				carried++
			}
		}
		return carried >= k.N
	})
}

// mayReserve reports whether a waiting job may hold another one back.
func (l *listed) mayReserve(w, c Candidate) bool {
	shares := slices.ContainsFunc(w.Limits, func(k Limit) bool {
		return slices.ContainsFunc(c.Limits, func(other Limit) bool { return other.Key == k.Key })
	})
	urgent, aged := w.Priority < c.Priority && !l.limited(w), l.isAged(w) && w.Priority <= c.Priority
	return w.ID != c.ID && ((urgent || aged) && excludes(itemsOf(w.Declared), itemsOf(c.Declared)) || aged && shares)
}

func (l *listed) isAged(w Candidate) bool {
	return !l.now.Before(time.UnixMicro(w.ReceivedUs).Add(l.settings.ReserveAfter))
}

// pick checks each choice, and what is left.
func (l *listed) pick(t *rapid.T) {
	if l.now.After(l.latest) {
		l.latest = l.now
	}
	for id, r := range l.running {
		l.expectEnd(id, r)
	}
	continues := l.YieldedIDs()
	keeps := map[job.ID]bool{} // jobs that have aged reservations keep them when older ones become eligible
	for _, r := range expectedOf(l.State).reserved.aged {
		keeps[r.id] = true
	}
	picked := l.Pick(l.now)
	for l.Unfinished() {
		picked = append(picked, l.Pick(l.now)...)
	}
	for _, id := range picked {
		c, known := l.candidates[id]
		require.True(t, known)
		require.True(t, !l.taken(c) || l.HadReservation(id) && l.isAged(c), "job %d cannot get its locks", id)
		require.False(t, l.limited(c))
		require.Less(t, len(l.running), l.settings.Slots)
		if !keeps[id] && !slices.Contains(continues, id) {
			l.checkPassed(t, c)
		}
		delete(l.candidates, id)
		l.running[id], l.began[id] = c, l.now
		l.expectEnd(id, c)
	}
	if len(l.running) >= l.settings.Slots {
		return
	}
	for id, c := range l.candidates {
		reserved := false
		for _, w := range l.candidates {
			reserved = reserved || l.mayReserve(w, c)
		}
		require.True(t, l.taken(c) || l.limited(c) || reserved, "job %d could run and a slot is empty", id)
	}
}

// expectEnd takes into account when a running job is expected to end.
func (l *listed) expectEnd(id job.ID, r Candidate) {
	for _, end := range []time.Time{l.began[id].Add(classOf(r.Expected).duration()), l.now.Add(l.now.Sub(l.began[id]) / 2)} {
		if end.After(l.latest) {
			l.latest = end
		}
	}
}

// checkPassed checks two rules. A job that wants the same as the oldest aged job of the most urgent priority is chosen before
// it only if the job is expected to end before all running ones. No job is chosen before a more urgent one that could run.
func (l *listed) checkPassed(t *rapid.T, c Candidate) {
	aged := Candidate{Priority: 1000}
	for _, w := range l.candidates {
		if l.limited(w) || l.now.Before(time.UnixMicro(w.ReceivedUs).Add(l.settings.ReserveAfter)) {
			continue
		}
		if w.Priority < aged.Priority || w.Priority == aged.Priority && w.ID < aged.ID {
			aged = w
		}
	}
	if aged.ID != 0 && aged.ID != c.ID && aged.Priority <= c.Priority && excludes(itemsOf(aged.Declared), itemsOf(c.Declared)) {
		require.False(t, l.now.Add(classOf(c.Expected).duration()).After(l.latest), "job %d passes the aged job %d", c.ID, aged.ID)
	}
	for _, w := range l.candidates {
		if w.Priority < c.Priority && !l.taken(w) && !l.limited(w) {
			held := false
			for _, other := range l.candidates {
				held = held || l.mayReserve(other, w)
			}
			require.True(t, held, "job %d is chosen before the more urgent job %d, which could run", c.ID, w.ID)
		}
	}
}

// All candidates are picked once nothing stands in their way.
func (l *listed) drain(t *rapid.T) {
	l.outside = nil
	l.SetOwnerLocks(wconfd, nil, nil)
	for len(l.candidates)+len(l.running) > 0 {
		before := len(l.candidates)
		l.pick(t)
		require.True(t, len(l.running) > 0 || len(l.candidates) < before, "nothing starts")
		for id := range l.running {
			l.Remove(id)
			delete(l.running, id)
		}
	}
	x := expectedOf(l.State)
	require.Empty(t, x.places.byKey)
	require.Zero(t, x.places.open.Len())
	require.Empty(t, x.owners)
	require.Empty(t, x.places.watchers)
	require.Zero(t, l.groups.shapes.byHash.used)
	require.Zero(t, l.groups.names.byHash.used)
	require.Empty(t, x.began)
}

func TestExpectedDecisions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := genSettings.Draw(t, "settings")
		settings.Order, settings.Ageing, settings.ReserveAfter = Expected, rapid.IntRange(1, 30).Draw(t, "ageing"), time.Duration(rapid.IntRange(0, 20).Draw(t, "reserve"))*time.Second
		l := &listed{State: NewState(settings), now: time.Unix(20, 0), candidates: map[job.ID]Candidate{}, running: map[job.ID]Candidate{}, began: map[job.ID]time.Time{}}
		next := job.ID(0)
		t.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) { l.enqueue(t, &next) }, "enqueue more": func(t *rapid.T) { l.enqueue(t, &next) },
			"withdraw": func(t *rapid.T) {
				id := job.ID(rapid.IntRange(1, 30).Draw(t, "id"))
				delete(l.candidates, id)
				l.Withdraw(id)
			},
			"change": func(t *rapid.T) {
				for _, id := range slices.Sorted(maps.Keys(l.candidates)) {
					c := l.candidates[id]
					c.Priority, c.Limits = genPriority.Draw(t, "priority"), genLimits.Draw(t, "limits")
					l.Enqueue(c)
					l.candidates[id] = c
					return
				}
			},
			"end": func(t *rapid.T) {
				for _, id := range l.RunningIDs() {
					if rapid.Bool().Draw(t, "ends") {
						l.Remove(id)
						delete(l.running, id)
						return
					}
				}
			},
			"next opcode": func(t *rapid.T) {
				for _, id := range l.RunningIDs() {
					c := l.running[id]
					c.Declared = genDeclared.Draw(t, "next")
					l.SetOwnerLocks(jobOwnerKey(id), nil, nil)
					l.Yield(id)
					delete(l.running, id)
					l.Enqueue(c)
					l.candidates[id] = c
					return
				}
			},
			"takes": func(t *rapid.T) {
				for _, id := range l.RunningIDs() {
					items := itemsOf(l.running[id].Declared)
					if rapid.Bool().Draw(t, "granted") {
						l.SetOwnerLocks(jobOwnerKey(id), items, nil)
					} else {
						l.SetOwnerLocks(jobOwnerKey(id), nil, items)
					}
				}
			},
			"outside": func(t *rapid.T) {
				l.outside = slices.DeleteFunc(genItems.Draw(t, "outside"), func(i lock.Item) bool { return i.Mode == lock.None || i.Lock == lock.ConfigLock })
				l.SetOwnerLocks(wconfd, l.outside, nil)
			},
			"settings": func(t *rapid.T) {
				settings.Slots, settings.Tick = rapid.IntRange(1, 5).Draw(t, "slots"), rapid.SampledFrom([]time.Duration{time.Second, 30 * time.Second}).Draw(t, "tick")
				l.SetSettings(settings)
			},
			"time": func(t *rapid.T) {
				l.now = l.now.Add(time.Duration(rapid.IntRange(0, 8_000).Draw(t, "ms")) * time.Millisecond)
			},
			"pick": l.pick,
		})
		l.settings.Slots = 100
		l.drain(t)
	})
}

func (l *listed) enqueue(t *rapid.T, next *job.ID) {
	*next++
	c := Candidate{ID: *next, Priority: genPriority.Draw(t, "priority"), ReceivedUs: l.now.UnixMicro(), Declared: genDeclared.Draw(t, "declared"),
		Expected: time.Duration(rapid.IntRange(0, 20_000).Draw(t, "expected")) * time.Millisecond, Limits: genLimits.Draw(t, "limits")}
	if rapid.IntRange(0, 9).Draw(t, "other clock") == 0 {
		c.ReceivedUs -= int64(rapid.IntRange(0, 20_000_000).Draw(t, "earlier"))
	}
	l.Enqueue(c)
	l.candidates[c.ID] = c
}

// Classes of durations are never shorter than the durations, and at most a tenth longer, up to a month.
func TestClassesOfDurations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(16, (30*24*time.Hour).Milliseconds()).Draw(t, "ms")) * time.Millisecond
		c := classOf(d).duration()
		require.GreaterOrEqual(t, c, d)
		require.LessOrEqual(t, c, d+d/10+time.Millisecond)
	})
	require.Zero(t, classOf(0))
	require.Less(t, len(classMs), 257)
}
