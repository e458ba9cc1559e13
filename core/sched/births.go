package sched

import (
	"slices"

	"lockstep/core/job"
)

// births makes the tick at which a job counts as received rise with ids, though
// the clock may have been set back between two jobs: a job counts as received no
// later than any of greater id that has been seen. The other way, nobody earlier
// than those before, one job from a clock that ran ahead by years would keep all
// after it from ageing.
//
// Invariant: marks rise strictly in all their fields, and first <= last <
// first of the next. Each id seen lies in a mark, whose tick is the id's.
type births struct{ marks []mark }

type mark struct {
	first, last job.ID
	tick        int64
}

// marksMax bounds what is remembered of jobs that have left: more than a day of
// ticks in each of which a job was received. A job put back after longer, if the
// clock was also set back then, may count as younger than one after it, and a
// choice may take it for the better of the two.
const marksMax = 4096

// see notes a job received at a tick, and returns the tick that it counts for.
// If lowers, those with smaller ids and a later tick count for this one too.
func (b *births) see(id job.ID, tick int64) (counts int64, lowers bool) {
	at, _ := slices.BinarySearchFunc(b.marks, id, func(m mark, id job.ID) int { return int(min(max(m.last-id, -1), 1)) })
	if at < len(b.marks) && b.marks[at].tick <= tick {
		m := &b.marks[at]
		m.first = min(m.first, id)
		return m.tick, false
	}
	// Those from low on are of a later tick. Those that begin before the job are
	// lowered, the last of them in part if it reaches beyond.
	low, _ := slices.BinarySearchFunc(b.marks, tick, func(m mark, tick int64) int {
		if m.tick > tick {
			return 1
		}
		return -1
	})
	fresh := mark{id, id, tick}
	high := low
	for ; high < len(b.marks) && b.marks[high].first < id; high++ {
		lowers = true
		fresh.first = min(fresh.first, b.marks[high].first)
		if b.marks[high].last > id {
			b.marks[high].first = id + 1
			break
		}
	}
	if high < len(b.marks) && b.marks[high].first == id {
		b.shrink(&high)
	}
	if low > 0 && b.marks[low-1].tick == tick {
		low--
		fresh.first = b.marks[low].first
	}
	b.marks = slices.Replace(b.marks, low, high, fresh)
	if len(b.marks) > marksMax {
		b.marks = slices.Delete(b.marks, 0, marksMax/2)
	}
	return tick, lowers
}

// shrink takes the first id out of the mark at high, which the caller then
// replaces too if that was its only one.
func (b *births) shrink(high *int) {
	m := &b.marks[*high]
	if m.first == m.last {
		*high++
	} else {
		m.first++
	}
}
