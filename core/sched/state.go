package sched

import (
	"math"

	"lockstep/core/job"
	"lockstep/core/lock"
)

// State decides which candidates start next: it has the candidates, the running jobs, the number of slots, and the locks of active
// owners. After a crash it is rebuilt from what the queue and the lock manager report.
type State struct {
	*jobs
	order
}

// NewState is a State without jobs. It panics if the settings are invalid.
func NewState(settings Settings) *State {
	j := newJobs()
	j.settings.Order = settings.Order
	s := &State{jobs: j}
	if settings.Order == Expected {
		s.order = newExpected(j)
	} else {
		s.order = newWeights(j)
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
	old := s.settings
	if (settings.Order == Expected) != (old.Order == Expected) {
		panic("sched: the order " + string(settings.Order) + " needs a new State")
	}
	s.settings = settings
	if settings.Tick != old.Tick {
		s.recomputeArrivals()
	}
	s.settingsChanged(old)
}

// Enqueue makes a job a candidate, or changes a candidate. It does nothing for a running job.
//
// A yielded job is picked like other candidates, and continues with its remaining opcodes.
func (s *State) Enqueue(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	g := s.groups
	key := bucketKey{priority: clampPriority(c.Priority), limits: g.limits.setOf(c.Limits)}
	key.class, key.continues = s.classOf(c.ID, c.Expected)
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
	} else {
		g.watcher.headChanged(group)
	}
	if lowered {
		g.lowerArrivals(c.ID, tick)
		g.watcher.rebuild()
	}
	if s.HasMark(c.ID) { // with the limits that it has now
		s.setMark(c.ID)
	}
	s.stale = true
}

func clampPriority(priority int) int32 {
	return int32(min(max(priority, math.MinInt32), math.MaxInt32))
}

// AddRunning adds a job that was found running. Slots and limits do not keep it out, but it occupies both. It does
// nothing for a job that is known to run.
func (s *State) AddRunning(c Candidate) {
	if _, runs := s.running[c.ID]; runs {
		return
	}
	delete(s.yielded, c.ID)
	s.Withdraw(c.ID)
	s.running[c.ID] = s.groups.limits.occupy(c.Limits)
	s.addRunning(c)
}

// SetLimits changes the limits that a running job carries, for instance after filter rules have changed. The job goes
// on even if the limits are exceeded. For candidates, use Enqueue.
func (s *State) SetLimits(id job.ID, list []Limit) {
	if old, runs := s.running[id]; runs {
		s.running[id] = s.groups.limits.occupy(list)
		s.vacate(old)
	}
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

// SetDeclared sets the declarations of the current opcode of a running job and of its later opcodes. Until then the
// declaration with which the job was picked counts as the current opcode's. It does nothing for a job that does not
// run.
func (s *State) SetDeclared(id job.ID, current, later lock.Declaration) {
	if _, runs := s.running[id]; runs {
		s.declare(id, current, later)
	}
}

// Remove removes a job, whether it waits or runs, with its slot, limits and locks.
func (s *State) Remove(id job.ID) {
	s.Withdraw(id)
	s.vacate(s.running[id])
	delete(s.running, id)
	delete(s.yielded, id)
	s.remove(id)
}
