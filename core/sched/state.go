package sched

import (
	"maps"
	"math"
	"slices"
	"time"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// State is the state of the scheduler: the candidates, the running jobs, the number of slots, and the locks of active
// owners. After a crash it is rebuilt from what the queue and the lock manager report.
//
// Invariants: a job is at most one of candidate, running, and yielded but not a candidate. A yielded job that may go on
// is both a candidate and in yielded.
type State struct {
	settings   Settings
	groups     *groups
	arrivals   arrivalTicks
	running    map[job.ID]occupiedLimits
	yielded    map[job.ID]struct{}
	owners     map[lock.Owner]*activeOwner
	contention contention
	weights    weights
	expected   *expected // in the order Expected only
	marks      marks     // shown to people (marks.go)
	// stale is false only if limits block every candidate, so that there is none to pick. Neither time nor the locks of
	// other owners change that.
	stale bool
}

// occupiedLimits is the counters that a running job occupies.
type occupiedLimits []*counter

// NewState is a State without jobs. It panics if the settings are invalid.
func NewState(settings Settings) *State {
	s := &State{
		groups: newGroups(), running: map[job.ID]occupiedLimits{}, yielded: map[job.ID]struct{}{}, owners: map[lock.Owner]*activeOwner{},
		marks: newMarks(),
	}
	if settings.Order == Expected {
		s.expected = newExpected(s.groups)
		s.groups.places = s.expected.places
	}
	s.SetSettings(settings)
	return s
}

// SetSettings changes the settings, also for jobs that wait already. It panics if the settings are invalid: with them,
// no job would ever be picked. The order must not change from Expected to another one, or back.
func (s *State) SetSettings(settings Settings) {
	if err := settings.Validate(); err != nil {
		panic("sched: invalid settings: " + err.Error())
	}
	if (settings.Order == Expected) != (s.expected != nil) {
		panic("sched: the order " + string(settings.Order) + " needs a new State")
	}
	old := s.settings
	s.settings = settings
	if settings.Tick != old.Tick {
		s.recomputeArrivals()
	}
	if s.expected != nil && (settings.Tick != old.Tick || settings.Ageing != old.Ageing) {
		p := s.expected.places
		p.ageing, p.tickMs = int64(settings.Ageing), settings.Tick.Milliseconds()
		p.rebuild()
	}
}

// recomputeArrivals computes the arrival ticks of all candidates again, and forgets the ids of jobs that have left.
func (s *State) recomputeArrivals() {
	e := s.groups.entries.items
	var positions []int32
	for i := range e {
		if e[i].group != 0 {
			positions = append(positions, int32(i))
		}
	}
	slices.SortFunc(positions, func(a, b int32) int { return int(min(max(e[a].id-e[b].id, -1), 1)) })
	s.arrivals = arrivalTicks{}
	tick := int64(math.MaxInt64)
	for _, at := range slices.Backward(positions) {
		tick = min(tick, s.settings.tickOf(e[at].receivedUs))
		e[at].arrivalTick = tick
	}
	for _, at := range positions {
		s.arrivals.record(e[at].id, e[at].arrivalTick)
	}
}

// Settings are the current settings.
func (s *State) Settings() Settings { return s.settings }

// Enqueue makes a job a candidate, or changes a candidate. It does nothing for a running job.
//
// A yielded job is picked like other candidates, and continues with its remaining opcodes.
func (s *State) Enqueue(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	g := s.groups
	key := bucketKey{priority: clampPriority(c.Priority), limits: g.limits.setOf(c.Limits)}
	if s.expected != nil {
		key.class, key.continues = classOf(c.Expected), s.Yielded(c.ID)
	}
	group := g.findOrAdd(key, &c.Declared)
	at := g.entryOf(c.ID)
	if at != 0 && g.entries.items[at].group == group && g.entries.items[at].receivedUs == c.ReceivedUs {
		return
	}
	if at == 0 {
		at = g.add(c.ID)
	} else if g.entries.items[at].group != group {
		g.leaveGroup(at)
	}
	tick, lowered := s.arrivals.record(c.ID, s.settings.tickOf(c.ReceivedUs))
	g.entries.items[at].receivedUs, g.entries.items[at].arrivalTick = c.ReceivedUs, tick
	if g.entries.items[at].group == 0 {
		g.joinGroup(at, group)
	} else if g.places != nil {
		g.places.headChanged(group)
	}
	if lowered {
		g.lowerArrivals(c.ID, tick)
		if g.places != nil {
			g.places.rebuild()
		}
	}
	if s.HasMark(c.ID) { // with the limits that it has now
		s.setMark(c.ID)
	}
	s.stale = true
}

func clampPriority(priority int) int32 {
	return int32(min(max(priority, math.MinInt32), math.MaxInt32))
}

// Withdraw removes a candidate that waits for a dependency, is paused, or does not exist any longer, with its mark. It does
// nothing for other jobs.
func (s *State) Withdraw(id job.ID) {
	s.dropMark(id)
	if at := s.groups.entryOf(id); at != 0 {
		s.groups.remove(at)
	}
}

// AddRunning adds a job that was found running. Slots and limits do not keep it out, but it occupies both. It does
// nothing for a job that is known to run.
func (s *State) AddRunning(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	delete(s.yielded, c.ID)
	s.Withdraw(c.ID)
	occupied := s.groups.limits.occupy(c.Limits)
	if s.expected != nil {
		s.running[c.ID] = occupied
		began := begun{class: classOf(c.Expected), priority: clampPriority(c.Priority), reserved: true}
		if c.BeganUs > 0 {
			began.at = time.UnixMicro(c.BeganUs)
		}
		s.expected.began[c.ID] = began
		s.expected.begin(c.ID, c.Declared.Request())
		return
	}
	s.start(c.ID, occupied, s.declaredClaims(&c.Declared, Expects))
}

// start makes a job run with the declaration of its current opcode.
func (s *State) start(id job.ID, occupied occupiedLimits, current []claim) {
	s.running[id] = occupied
	s.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running, p.current, p.reachedMax = true, current, p.reachedNow
	})
}

// SetLimits changes the limits that a running job carries, for instance after filter rules have changed. The job goes
// on even if the limits are exceeded. For candidates, use Enqueue.
func (s *State) SetLimits(id job.ID, list []Limit) {
	if old, runs := s.running[id]; runs {
		s.running[id] = s.groups.limits.occupy(list)
		s.vacate(old)
	}
}

// vacate decreases the counters that a running job occupied.
func (s *State) vacate(occupied occupiedLimits) {
	s.groups.limits.vacate(occupied)
	s.stale = s.stale || len(occupied) > 0
}

// Yield takes the slot and the limits from a job that waits between two opcodes. Such a job does nothing, and may wait
// for a job that its limits would block. To go on it needs both again. Its declaration stops counting, because it asks
// for no locks before it goes on.
func (s *State) Yield(id job.ID) {
	occupied, runs := s.running[id]
	if !runs {
		return
	}
	delete(s.running, id)
	s.yielded[id] = struct{}{}
	s.vacate(occupied)
	s.stop(id)
}

// stop removes the declarations of a job that ran.
func (s *State) stop(id job.ID) {
	if s.expected != nil {
		s.expected.stop(id)
		return
	}
	s.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running = false
		s.replaceClaims(&p.current, nil)
		s.replaceClaims(&p.later, nil)
	})
}

// Remove removes a job with its slot, limits and locks.
func (s *State) Remove(id job.ID) {
	s.Withdraw(id)
	s.vacate(s.running[id])
	delete(s.running, id)
	delete(s.yielded, id)
	if s.expected != nil {
		s.expected.remove(id)
		return
	}
	if s.owners[jobOwnerKey(id)] == nil {
		return
	}
	s.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		s.replaceClaims(&p.current, nil)
		s.replaceClaims(&p.later, nil)
		s.replaceClaims(&p.actual, nil)
		*p = activeOwner{}
	})
}

// Len is the number of candidates.
func (s *State) Len() int { return s.groups.len() }

// SlotsInUse is the number of slots that are taken. It may exceed the number of slots, when that was reduced or when
// jobs were found running.
func (s *State) SlotsInUse() int { return len(s.running) }

// Running reports whether a job has a slot.
func (s *State) Running(id job.ID) bool {
	_, runs := s.running[id]
	return runs
}

// RunningIDs are the jobs that have a slot, by id.
func (s *State) RunningIDs() []job.ID { return slices.Sorted(maps.Keys(s.running)) }

// YieldedIDs are the jobs that have a process but no slot, by id, whether or not they are candidates again.
func (s *State) YieldedIDs() []job.ID { return slices.Sorted(maps.Keys(s.yielded)) }

// Yielded reports whether a job has a process but no slot.
func (s *State) Yielded(id job.ID) bool {
	_, yielded := s.yielded[id]
	return yielded
}
