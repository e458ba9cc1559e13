package sched

import (
	"slices"

	"lockstep/core/job"
)

// arrivalTicks assigns arrival ticks to jobs that never decrease with the id, even if the clock was set back between
// two jobs. It lowers the ticks of earlier jobs instead of raising those of later ones, so that one job stamped years
// ahead cannot stop all later jobs from ageing.
//
// Invariants: ranges increase strictly in all their fields, and first <= last < first of the next range. Every
// recorded id lies in a range, and the range's tick is the id's arrival tick.
type arrivalTicks struct{ ranges []tickRange }

// tickRange is a range of ids with the same arrival tick.
type tickRange struct {
	first, last job.ID
	tick        int64
}

// rangesMax bounds the ranges, which also cover jobs that have left: more than a day of ticks in each of which a job
// was received. If a job is put back later than that, and the clock was also set back, the job may count as younger
// than a later one, and a pick may prefer the later one.
const rangesMax = 4096

// record stores that a job was received at a tick, and returns its arrival tick. If lowered is true, jobs with smaller
// ids and a later tick now have the returned tick, too.
func (b *arrivalTicks) record(id job.ID, tick int64) (counts int64, lowered bool) {
	at, _ := slices.BinarySearchFunc(b.ranges, id, func(m tickRange, id job.ID) int { return int(min(max(m.last-id, -1), 1)) })
	if at < len(b.ranges) && b.ranges[at].tick <= tick {
		m := &b.ranges[at]
		m.first = min(m.first, id)
		return m.tick, false
	}
	// Ranges from low on have a later tick. Those that begin before the job are
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

// removeFirst takes the first id out of the range at high. If that was the only id, it advances high, so that the
// caller replaces the range.
func (b *arrivalTicks) removeFirst(high *int) {
	m := &b.ranges[*high]
	if m.first == m.last {
		*high++
	} else {
		m.first++
	}
}
