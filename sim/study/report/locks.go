package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/lock"
)

// lockChart is a chart of locks over time: a row for each.
type lockChart struct {
	frame
	Order     order
	Rows      []lockRow
	RowHeight px
}

type lockRow struct {
	Y         px
	Label     string
	Title     string
	Waited    string
	Held      []heldBar
	WaitPaths []waitPath
}

// heldBar is a period in which a job holds a lock.
type heldBar struct {
	Class string // exclusive or shared
	Title string
	X, W  px
}

// waitPath is the time in which a number of jobs wait for a lock.
type waitPath struct {
	Class string
	Path  string
}

// usage is the use of a lock in one order.
type usage struct {
	exclusive []heldPeriod
	shared    []span
	wanted    []waitPeriod
	blocked   []span // waits of all jobs that wanted the lock
}

type heldPeriod struct {
	span
	title string
}

type waitPeriod struct {
	span
	mode lock.Mode
}

// drawLocks shows the locks with the longest waits, in both orders together, and the number of
// the others.
func drawLocks(orders []order, shown span) ([]lockChart, string) {
	usages := make([]map[lock.Lock]*usage, len(orders))
	waited := map[lock.Lock]time.Duration{}
	for i, o := range orders {
		usages[i] = usagesOf(o, shown)
		for l, u := range usages[i] {
			waited[l] += total(u.blocked)
		}
	}
	locks := make([]lock.Lock, 0, len(waited))
	contended := 0
	for l, sum := range waited {
		locks = append(locks, l)
		if sum > 0 {
			contended++
		}
	}
	slices.SortFunc(locks, func(a, b lock.Lock) int { return cmp.Or(cmp.Compare(waited[b], waited[a]), a.Compare(b)) })
	locks = locks[:min(len(locks), maxLocks)]
	others := "none was"
	if contended > len(locks) {
		others = fmt.Sprintf("%d were", contended-len(locks))
	}
	said := fmt.Sprintf("%d of %d locks are shown, those for which most time was waited; of the others %s waited for.", len(locks), len(waited), others)
	var charts []lockChart
	for i, o := range orders {
		charts = append(charts, drawLockRows(o, usages[i], locks, shown))
	}
	return charts, said
}

// usagesOf finds when each lock was held, and when a job had to wait for it.
func usagesOf(o order, shown span) map[lock.Lock]*usage {
	all := map[lock.Lock]*usage{}
	for i := range o.jobs {
		j := &o.jobs[i]
		for _, op := range j.Ops {
			for _, item := range op.Locks {
				u := all[item.Lock]
				if u == nil {
					u = &usage{}
					all[item.Lock] = u
				}
				held := span{op.Began, op.Ended}.clip(shown)
				switch {
				case held.empty():
				case item.Mode == lock.Exclusive:
					u.exclusive = append(u.exclusive, heldPeriod{held, fmt.Sprintf("job %d, %s, alone for %s", j.ID, j.Kind, longDuration(op.Ended-op.Began))})
				default:
					u.shared = append(u.shared, held)
				}
				if wanted := (span{op.Permitted, op.Began}).clip(shown); !wanted.empty() {
					u.wanted = append(u.wanted, waitPeriod{wanted, item.Mode})
				}
			}
		}
	}
	addBlockers(all)
	return all
}

// addBlockers finds the parts of the waits in which another job held the lock, or one that
// includes it or is included, in a mode that excludes.
//
// A job that waits for several locks can be blocked by any of them. A wait behind another
// request, while no job holds the lock, does not count.
func addBlockers(all map[lock.Lock]*usage) {
	var exclusive, held [lock.Free + 1]struct{ group, members []span }
	for l, u := range all {
		x, h := &exclusive[l.Level()].members, &held[l.Level()].members
		if l.IsGroup() {
			x, h = &exclusive[l.Level()].group, &held[l.Level()].group
		}
		for _, e := range u.exclusive {
			*x, *h = append(*x, e.span), append(*h, e.span)
		}
		*h = append(*h, u.shared...)
	}
	for l, u := range all {
		others := func(own []span, level struct{ group, members []span }) []span {
			if l.IsGroup() {
				return union(slices.Concat(own, level.members))
			}
			return union(slices.Concat(own, level.group))
		}
		var own []span
		for _, e := range u.exclusive {
			own = append(own, e.span)
		}
		byMode := map[lock.Mode][]span{lock.Shared: others(own, exclusive[l.Level()])}
		byMode[lock.Exclusive] = others(slices.Concat(own, u.shared), held[l.Level()])
		for _, w := range u.wanted {
			u.blocked = append(u.blocked, overlap(w.span, byMode[w.mode])...)
		}
	}
}

const (
	lockRowHeight = 20
	heldHeight    = 10
)

func drawLockRows(o order, usages map[lock.Lock]*usage, locks []lock.Lock, shown span) lockChart {
	scale := timeScale{shown}
	c := lockChart{frame: frameOver(scale, px(len(locks)*lockRowHeight)), Order: o, RowHeight: heldHeight}
	for i, l := range locks {
		row := lockRow{Y: c.Top + px(i*lockRowHeight) + 2, Label: l.String()}
		u := usages[l]
		if u == nil {
			u = &usage{}
		}
		for _, e := range u.exclusive {
			row.Held = append(row.Held, scale.heldBar("exclusive", e.title, e.span))
		}
		slices.SortFunc(row.Held, func(a, b heldBar) int { return cmp.Compare(a.X, b.X) })
		atOnce := levels(u.shared)
		for _, s := range union(u.shared) {
			most := 0
			for len(atOnce) > 0 && atOnce[0].from < s.to {
				most, atOnce = max(most, atOnce[0].n), atOnce[1:]
			}
			row.Held = append(row.Held, scale.heldBar("shared", fmt.Sprintf("shared by up to %d at once, for %s", most, longDuration(s.length())), s))
		}
		waits := levels(u.blocked)
		row.WaitPaths = scale.waitPaths(waits, row.Y+heldHeight+3)
		most := 0
		for _, w := range waits {
			most = max(most, w.n)
		}
		row.Waited = shortDuration(total(u.blocked))
		row.Title = fmt.Sprintf("%s: jobs waited for it for %s in total, up to %d at once", l, row.Waited, most)
		c.Rows = append(c.Rows, row)
	}
	return c
}

func (t timeScale) heldBar(class, title string, s span) heldBar {
	x := t.x(s.from)
	return heldBar{class, title, x, max(t.x(s.to)-x, 0.3)}
}

// wantClasses are shades, by the least number of waiting jobs.
var wantClasses = []struct {
	class string
	least int
}{{"want3", 4}, {"want2", 2}, {"want1", 1}}

// waitPaths draws one path for each shade. Periods that are too short to be seen join the one
// before.
func (t timeScale) waitPaths(waits []level, y px) []waitPath {
	paths := make([]strings.Builder, len(wantClasses))
	for i := 0; i < len(waits); {
		shade := shadeOf(waits[i].n)
		from, to := waits[i].from, waits[i].to
		for i++; i < len(waits) && t.x(waits[i].from)-t.x(to) < 0.2 && (shadeOf(waits[i].n) == shade || t.x(waits[i].to)-t.x(to) < 0.2); i++ {
			to = waits[i].to
		}
		fmt.Fprintf(&paths[shade], "M%v %vh%v", t.x(from), y, max(t.x(to)-t.x(from), 0.2))
	}
	var all []waitPath
	for i := range paths {
		if paths[i].Len() > 0 {
			all = append(all, waitPath{wantClasses[i].class, paths[i].String()})
		}
	}
	return all
}

func shadeOf(n int) int {
	for i, c := range wantClasses {
		if n >= c.least {
			return i
		}
	}
	return len(wantClasses) - 1
}
