package sched

import (
	"slices"

	"lockstep/core/job"
)

// arrivalTicks makes the tick at which a job counts as received rise with ids, though
// the clock may have been set back between two jobs: a job counts as received no
// later than any of greater id that has been seen. The other way, nobody earlier
// than those before, one job from a clock that ran ahead by years would keep all
// after it from ageing.
//
// Invariant: marks rise strictly in all their fields, and first <= last <
// first of the next. Each id seen lies in a mark, whose tick is the id's.
type arrivalTicks struct{ ranges []tickRange }

type tickRange struct {
	first, last job.ID
	tick        int64
}

// rangesMax bounds what is remembered of jobs that have left: more than a day of
// ticks in each of which a job was received. A job put back after longer, if the
// clock was also set back then, may count as younger than one after it, and a
// choice may take it for the better of the two.
const rangesMax = 4096

// record notes a job received at a tick, and returns the tick that it counts for.
// If lowers, those with smaller ids and a later tick count for this one too.
func (b *arrivalTicks) record(id job.ID, tick int64) (counts int64, lowered bool) {
	at, _ := slices.BinarySearchFunc(b.ranges, id, func(m tickRange, id job.ID) int { return int(min(max(m.last-id, -1), 1)) })
	if at < len(b.ranges) && b.ranges[at].tick <= tick {
		m := &b.ranges[at]
		m.first = min(m.first, id)
		return m.tick, false
	}
	// Those from low on are of a later tick. Those that begin before the job are
	// lowered, the last of them in part if it reaches beyond.
	low, _ := slices.BinarySearchFunc(b.ranges, tick, func(m tickRange, tick int64) int {
		if m.tick > tick {
			return 1
		}
		return -1
	})
	merged := tickRange{id, id, tick}
	high := low
	for ; high < len(b.ranges) && b.ranges[high].first < id; high++ {
		lowered = true
		merged.first = min(merged.first, b.ranges[high].first)
		if b.ranges[high].last > id {
			b.ranges[high].first = id + 1
			break
		}
	}
	if high < len(b.ranges) && b.ranges[high].first == id {
		b.removeFirst(&high)
	}
	if low > 0 && b.ranges[low-1].tick == tick {
		low--
		merged.first = b.ranges[low].first
	}
	b.ranges = slices.Replace(b.ranges, low, high, merged)
	if len(b.ranges) > rangesMax {
		b.ranges = slices.Delete(b.ranges, 0, rangesMax/2)
	}
	return tick, lowered
}

// removeFirst takes the first id out of the mark at high, which the caller then
// replaces too if that was its only one.
func (b *arrivalTicks) removeFirst(high *int) {
	m := &b.ranges[*high]
	if m.first == m.last {
		*high++
	} else {
		m.first++
	}
}
