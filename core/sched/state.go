package sched

import (
	"maps"
	"math"
	"slices"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// State is all that the scheduler knows: who may run, who runs, how many may, and
// what the latter hold. It is rebuilt from the queue's population and the lock
// manager's after a crash.
//
// Invariant: no job is two of candidate, running, and held without being told to
// go on. One that goes on is a candidate and in held.
type State struct {
	settings   Settings
	groups     *groups
	arrivals   arrivalTicks
	running    map[job.ID]occupiedLimits
	yielded    map[job.ID]struct{}
	owners     map[lock.Owner]*activeOwner
	contention contention
	weights    weights
	// stale is clear only if limits keep every candidate, so that there is nobody
	// to choose. Neither time nor what others hold changes that.
	stale bool
}

// occupiedLimits is what a job's process occupies as long as it lives.
type occupiedLimits []*counter

// NewState knows nobody. It panics at settings that are not valid.
func NewState(settings Settings) *State {
	s := &State{
		groups: newGroups(), running: map[job.ID]occupiedLimits{}, yielded: map[job.ID]struct{}{}, owners: map[lock.Owner]*activeOwner{},
	}
	s.SetSettings(settings)
	return s
}

// SetSettings changes the settings, for those too who wait already. It panics at
// settings that are not valid: with them, the queue would stand still in silence.
func (s *State) SetSettings(settings Settings) {
	if err := settings.Validate(); err != nil {
		panic("sched: invalid settings: " + err.Error())
	}
	old := s.settings
	s.settings = settings
	if settings.Tick != old.Tick {
		s.recomputeArrivals()
	}
}

// recomputeArrivals counts all candidates' ticks anew. Who has left is forgotten.
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

// Settings are those in force.
func (s *State) Settings() Settings { return s.settings }

// Enqueue makes a job a candidate, or changes one. A running job cannot be one:
// being told so changes nothing.
//
// A job that was held goes on with what it still has to run, and is picked like
// others.
func (s *State) Enqueue(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	g := s.groups
	priority := int32(min(max(c.Priority, math.MinInt32), math.MaxInt32))
	group := g.findOrAdd(priority, g.limits.setOf(c.Limits), &c.Declared)
	at := g.entryOf(c.ID)
	if at != 0 && g.entries.items[at].group == group && g.entries.items[at].receivedUs == c.ReceivedUs {
		return
	}
	if at == 0 {
		at = g.add(c.ID)
	} else if g.entries.items[at].group != group {
		g.leaveGroup(at)
	}
	if g.entries.items[at].group == 0 {
		g.joinGroup(at, group)
	}
	tick, lowered := s.arrivals.record(c.ID, s.settings.tickOf(c.ReceivedUs))
	g.entries.items[at].receivedUs, g.entries.items[at].arrivalTick = c.ReceivedUs, tick
	if lowered {
		g.lowerArrivals(c.ID, tick)
	}
	s.stale = true
}

// Withdraw makes a candidate none: it waits for a dependency, is paused, or gone.
// Of others it knows nothing.
func (s *State) Withdraw(id job.ID) {
	if at := s.groups.entryOf(id); at != 0 {
		s.groups.remove(at)
	}
}

// AddRunning tells of a job that was found running. Slots and limits do not matter,
// but it occupies what it carries. Told of a running job it does nothing.
func (s *State) AddRunning(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	delete(s.yielded, c.ID)
	s.Withdraw(c.ID)
	s.start(c.ID, s.groups.limits.occupy(c.Limits), s.declaredClaims(&c.Declared, Expects))
}

// start makes a job run with what it declares at hand.
func (s *State) start(id job.ID, occupied occupiedLimits, current []claim) {
	s.running[id] = occupied
	s.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running, p.current, p.reachedMax = true, current, p.reachedNow
	})
}

// SetLimits changes what a running job carries, as when filter rules have
// changed. It is not stopped, however full the limits are. For candidates that is
// Enqueue's business.
func (s *State) SetLimits(id job.ID, list []Limit) {
	if old, runs := s.running[id]; runs {
		s.running[id] = s.groups.limits.occupy(list)
		s.vacate(old)
	}
}

// vacate frees what a process carried.
func (s *State) vacate(occupied occupiedLimits) {
	s.groups.limits.vacate(occupied)
	s.stale = s.stale || len(occupied) > 0
}

// Yield takes the slot from a job that is held between two opcodes, and its place
// in limits: it does nothing meanwhile, and may wait for the very job that such a
// place would keep away. To go on it needs both again. What it declares counts no
// more: it asks for nothing before it goes on.
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

// stop ends what a running job declares.
func (s *State) stop(id job.ID) {
	s.updateOwner(jobOwnerKey(id), func(p *activeOwner) {
		p.running = false
		s.replaceClaims(&p.current, nil)
		s.replaceClaims(&p.later, nil)
	})
}

// Remove forgets a job altogether, with its slot, limits and locks.
func (s *State) Remove(id job.ID) {
	s.Withdraw(id)
	s.vacate(s.running[id])
	delete(s.running, id)
	delete(s.yielded, id)
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

// SlotsInUse is the number of slots that are taken. It may exceed the slots, when
// these were reduced or the jobs found running.
func (s *State) SlotsInUse() int { return len(s.running) }

// RunningIDs are the jobs that have a slot, by id.
func (s *State) RunningIDs() []job.ID { return slices.Sorted(maps.Keys(s.running)) }

// YieldedIDs are the jobs that have a process but no slot, whether they are told to go
// on or not, by id.
func (s *State) YieldedIDs() []job.ID { return slices.Sorted(maps.Keys(s.yielded)) }

// Yielded tells whether a job has a process but no slot.
func (s *State) Yielded(id job.ID) bool {
	_, yielded := s.yielded[id]
	return yielded
}
