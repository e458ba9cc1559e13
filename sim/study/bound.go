package study

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/sim"
)

// lowerBound is a mean wait, in seconds, below which no order of the work can be, whoever chooses it and whatever is
// known in advance. It is the larger one of two bounds on the sum of the times from submission to the end. Of that sum
// the time of the work is subtracted, and what later opcodes of a job may wait: only the wait for the first one counts,
// so a job's bound is about its first opcode alone.
//
//   - Locks: each job is assigned to one lock that its first opcode needs exclusively, the one whose jobs have the most
//     work. Jobs of one lock execute one after the other, so the sum of their completion times is at least that of
//     preemptive shortest remaining time first on one machine, which is the least of all orders (Schrage, 1968). Other
//     jobs wait 0 at least.
//   - Slots: all first opcodes on one machine that is as fast as all slots. It can do what the slots can do, because a
//     machine of speed n may divide its time between n jobs.
func lowerBound(batches []batch, slots int) float64 {
	var all []boundJob
	perLock := map[string]time.Duration{}
	for _, b := range batches {
		for _, j := range b.jobs {
			first := boundJob{release: b.at, work: durationOf(j.ops[0]), locks: exclusiveLocksOf(j.ops[0])}
			for _, l := range first.locks {
				perLock[l] += first.work
			}
			all = append(all, first)
		}
	}
	if len(all) == 0 {
		return 0
	}
	n := float64(len(all))
	return max(boundOfLocks(all, perLock), boundOfSlots(all, slots)).Seconds() / n
}

// boundJob is the first opcode of a job.
type boundJob struct {
	release, work time.Duration
	locks         []string // that it needs exclusively
}

// boundOfLocks is a lower bound of the sum of all waits: each lock executes its jobs one after the other, the shortest first. A job
// counts for its busiest lock.
func boundOfLocks(all []boundJob, perLock map[string]time.Duration) time.Duration {
	machines := map[string][]boundJob{}
	for _, j := range all {
		if len(j.locks) > 0 {
			busiest := slices.MaxFunc(j.locks, func(a, b string) int { return cmp.Or(cmp.Compare(perLock[a], perLock[b]), strings.Compare(a, b)) })
			machines[busiest] = append(machines[busiest], j)
		}
	}
	sum := time.Duration(0)
	for _, l := range slices.Sorted(maps.Keys(machines)) {
		sum += waitsOfShortestFirst(machines[l], 1)
	}
	return sum
}

// boundOfSlots is the sum of waits, bounded by the slots. The fast machine needs less time for each job than a slot, so
// the difference is what remains of the sum of completion times; the sum of waits is at least 0.
func boundOfSlots(all []boundJob, slots int) time.Duration {
	return max(waitsOfShortestFirst(all, slots), 0)
}

// waitsOfShortestFirst is the sum over all jobs of completion - release - work, by preemptive shortest remaining time
// first on one machine of a speed. The list is in the order of releases.
func waitsOfShortestFirst(jobs []boundJob, speed int) time.Duration {
	var pending durationHeap
	now, sum := time.Duration(0), time.Duration(0)
	for next := 0; next < len(jobs) || len(pending) > 0; {
		if len(pending) == 0 {
			now = max(now, jobs[next].release)
		}
		for ; next < len(jobs) && jobs[next].release <= now; next++ {
			heap.Push(&pending, jobs[next].work/time.Duration(speed))
			sum -= jobs[next].release + jobs[next].work
		}
		shortest := pending[0]
		if end := now + shortest; next == len(jobs) || end <= jobs[next].release {
			heap.Pop(&pending)
			now = end
			sum += end
			continue
		}
		pending[0] -= jobs[next].release - now
		now = jobs[next].release
		heap.Fix(&pending, 0)
	}
	return sum
}

// exclusiveLocksOf are the names of the locks that a planned run needs exclusively.
func exclusiveLocksOf(op sim.OpSpec) []string {
	var exclusive []string
	for word := range strings.FieldsSeq(string(op)) {
		list, found := strings.CutPrefix(word, "locks=")
		if !found {
			continue
		}
		for name := range strings.SplitSeq(list, ",") {
			if !strings.HasSuffix(name, ":shared") {
				exclusive = append(exclusive, name)
			}
		}
	}
	return exclusive
}

type durationHeap []time.Duration

func (h durationHeap) Len() int           { return len(h) }
func (h durationHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h durationHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *durationHeap) Push(x any)        { *h = append(*h, x.(time.Duration)) }
func (h *durationHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
