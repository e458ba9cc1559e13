package study

import (
	"slices"
	"time"

	"lockstep/core/lock"
)

// Drains says what it costs to start jobs that want the big lock or a whole level, times in seconds. The drain of such a
// job begins with the last opcode that was let through although the job conflicts with it, but not before the job was submitted. It ends
// with the job's first opcode. In between, opcodes that run end, and none begins that would be in the job's way.
type Drains struct {
	Jobs    int     `json:"jobs"`
	Mean    float64 `json:"mean"`
	Longest float64 `json:"longest"`
	// EmptySlotSeconds is the sum over all drains of the slots that no job had, times how long.
	EmptySlotSeconds float64 `json:"empty_slot_seconds"`
}

// drains measures the drains of a run with so many slots: the times in which slots stay empty for a job that keeps out most others. All
// jobs must have ended.
func drains(jobs map[int64]*JobTiming, slots int) Drains {
	d := Drains{}
	for _, wide := range jobs {
		if !isWide(wide.Ops[0].Locks) {
			continue
		}
		length, empty := drainOf(wide, jobs, slots)
		d.Jobs++
		d.Mean += length.Seconds()
		d.Longest = max(d.Longest, length.Seconds())
		d.EmptySlotSeconds += empty.Seconds()
	}
	if d.Jobs > 0 {
		d.Mean /= float64(d.Jobs)
	}
	return d
}

// isWide reports whether locks keep out most other jobs: the big lock, or all of a level.
func isWide(locks []lock.Item) bool {
	return slices.ContainsFunc(locks, func(i lock.Item) bool {
		return i.Lock == lock.BGL && i.Mode == lock.Exclusive || i.Lock.IsGroup()
	})
}

// drainOf is the length of a job's drain, and the time of empty slots in it.
func drainOf(wide *JobTiming, jobs map[int64]*JobTiming, slots int) (length, empty time.Duration) {
	from, to := wide.Submitted, wide.Ops[0].Began
	for _, j := range jobs {
		for _, op := range j.Ops {
			if j != wide && op.Began < to && conflict(op.Locks, wide.Ops[0].Locks) {
				from = max(from, op.Began)
			}
		}
	}
	empty = time.Duration(slots) * (to - from)
	for _, j := range jobs {
		empty -= max(0, min(j.Ended, to)-max(j.Chosen, from))
	}
	return to - from, max(0, empty)
}

// conflict reports whether two owners cannot have these locks at the same time.
func conflict(a, b []lock.Item) bool {
	for _, x := range a {
		for _, y := range b {
			if exclude(x, y) {
				return true
			}
		}
	}
	return false
}

func exclude(x, y lock.Item) bool {
	exclusive := x.Mode == lock.Exclusive || y.Mode == lock.Exclusive
	switch {
	case x.Lock == y.Lock:
		return exclusive
	case x.Lock == lock.BGL:
		return x.Mode == lock.Exclusive
	case y.Lock == lock.BGL:
		return y.Mode == lock.Exclusive
	}
	return exclusive && x.Lock.Level() == y.Lock.Level() && (x.Lock.IsGroup() || y.Lock.IsGroup())
}
