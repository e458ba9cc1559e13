package sched

import (
	"maps"
	"math"
	"slices"

	"lockstep/core/job"
)

// jobs is what all orders share: the candidates, the running jobs and what they occupy.
//
// Invariants: a job is at most one of candidate, running, and yielded but not a candidate. A yielded job that may go on
// is both a candidate and in yielded.
type jobs struct {
	settings Settings
	groups   *groups
	arrivals arrivalTicks
	running  map[job.ID]occupiedLimits
	yielded  map[job.ID]struct{}
	marks    marks // shown to people (marks.go)
	// stale is false only if limits block every candidate, so that there is none to pick. Neither time nor the locks of
	// other owners change that.
	stale bool
}

// occupiedLimits are the counters of the limits (rate limits, filter rules) in which a running job takes a place, until vacate.
type occupiedLimits []*counter

func newJobs() *jobs {
	return &jobs{groups: newGroups(), running: map[job.ID]occupiedLimits{}, yielded: map[job.ID]struct{}{}, marks: newMarks()}
}

// recomputeArrivals computes the arrival ticks of all candidates again, and forgets the ids of jobs that have left.
func (j *jobs) recomputeArrivals() {
	e := j.groups.entries.items
	var positions []int32
	for i := range e {
		if e[i].group != 0 {
			positions = append(positions, int32(i))
		}
	}
	slices.SortFunc(positions, func(a, b int32) int { return int(min(max(e[a].id-e[b].id, -1), 1)) })
	j.arrivals = arrivalTicks{}
	tick := int64(math.MaxInt64)
	for _, at := range slices.Backward(positions) {
		tick = min(tick, j.settings.tickOf(e[at].receivedUs))
		e[at].arrivalTick = tick
	}
	for _, at := range positions {
		j.arrivals.record(e[at].id, e[at].arrivalTick)
	}
}

// Settings are the current settings.
func (j *jobs) Settings() Settings { return j.settings }

// Withdraw removes a candidate that waits for a dependency, is paused, or does not exist any longer, with its mark. It does
// nothing for other jobs.
func (j *jobs) Withdraw(id job.ID) {
	j.dropMark(id)
	if at := j.groups.entryOf(id); at != 0 {
		j.groups.remove(at)
	}
}

// vacate decreases the counters that a running job occupied. If it occupied any, candidates may be picked again.
func (j *jobs) vacate(occupied occupiedLimits) {
	j.groups.limits.vacate(occupied)
	j.stale = j.stale || len(occupied) > 0
}

// Len is the number of candidates.
func (j *jobs) Len() int { return j.groups.len() }

// SlotsInUse is the number of slots that are taken. It may exceed the number of slots, when that was reduced or when
// jobs were found running.
func (j *jobs) SlotsInUse() int { return len(j.running) }

// Running reports whether a job has a slot.
func (j *jobs) Running(id job.ID) bool {
	_, runs := j.running[id]
	return runs
}

// RunningIDs are the jobs that have a slot, by id.
func (j *jobs) RunningIDs() []job.ID { return slices.Sorted(maps.Keys(j.running)) }

// YieldedIDs are the jobs that have a process but no slot, by id, whether or not they are candidates again.
func (j *jobs) YieldedIDs() []job.ID { return slices.Sorted(maps.Keys(j.yielded)) }

// Yielded reports whether a job has a process but no slot.
func (j *jobs) Yielded(id job.ID) bool {
	_, yielded := j.yielded[id]
	return yielded
}

// LimitsExceeded reports whether more running jobs carry one of these limits than it allows. That happens when jobs are
// found running after their slots were given to other jobs.
func (j *jobs) LimitsExceeded(list []Limit) bool {
	return slices.ContainsFunc(list, func(l Limit) bool {
		c := j.groups.limits.counters[l.Key]
		return c != nil && c.running > l.N
	})
}
