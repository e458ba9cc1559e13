package scheduler

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/config"
	"lockstep/core/durations"
	"lockstep/core/filter"
	"lockstep/core/forecast"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/sched"
)

// SnapshotMax is how many of the first candidates a snapshot has, and how many other jobs.
const SnapshotMax = 1_000

// TakeSnapshot asks for a copy of the jobs, locks and durations that estimates of starts and ends are computed from. The asker computes
// them, so that the scheduler goes on meanwhile. Ids are jobs that the snapshot has to have, at most SnapshotMax.
type TakeSnapshot struct {
	Request uint64
	Ids     []int64
	NotDue  bool // the snapshot has to have the jobs that only wait for their time, too, the first ones of them
}

// Snapshot answers TakeSnapshot with a copy of what the scheduler knows. Its values do not change.
type Snapshot struct {
	Request   uint64
	world     forecast.World // the jobs are without opcodes
	opcodes   map[job.ID]remaining
	learned   *durations.Table
	catalogue *opcode.Catalogue
	resources *config.Resources
}

// remaining is the opcodes of a job from one on.
type remaining struct {
	name    string
	encoded []byte
	op      int
}

// GetRequest is the number of the question.
func (m *Snapshot) GetRequest() uint64 { return m.Request }

// Order is the order in force. In others than expected there are no estimates.
func (m *Snapshot) Order() sched.Order { return m.world.Settings.Order }

// World is the snapshot as estimates need it. It decodes all its jobs, which takes some ten microseconds for each.
func (m *Snapshot) World() *forecast.World {
	w := m.world
	for _, list := range []*[]forecast.Job{&w.Running, &w.First, &w.Waiting, &w.Beyond} {
		*list = slices.Clone(*list)
		for i := range *list {
			(*list)[i].Ops = m.ops(m.opcodes[(*list)[i].ID])
		}
	}
	return &w
}

func (m *Snapshot) ops(r remaining) []forecast.Op {
	j, err := job.Decode(r.encoded)
	if err != nil || r.op >= len(j.Ops) {
		return []forecast.Op{{}} // the scheduler has decoded it before
	}
	var ops []forecast.Op
	for _, op := range j.Ops[r.op:] {
		kind := durations.KindOf(op.Input, r.name)
		ops = append(ops, forecast.Op{Declared: m.catalogue.Declare(op.Input, m.resources), Kind: kind.Program, Takes: m.learned.Expect(kind)})
	}
	return ops
}

// takeSnapshot copies what estimates need. It decodes no job.
func (s *scheduler) takeSnapshot(ctx actor.Context, m *TakeSnapshot) {
	now := s.config.Env.Clock().Now()
	a := &Snapshot{Request: m.Request, opcodes: map[job.ID]remaining{}, catalogue: s.config.Catalogue, resources: s.resources,
		world: forecast.World{Now: now, Settings: s.settings}}
	if s.state == nil {
		a.learned = &durations.Table{}
		ctx.Respond(a)
		return
	}
	a.learned, a.world.Locks = s.learned.table.Clone(), s.state.AllLocks()
	for _, id := range s.state.RunningIDs() {
		s.copyJob(a, &a.world.Running, id)
	}
	for _, id := range s.state.First(SnapshotMax, now) {
		s.copyJob(a, &a.world.First, id)
	}
	for _, id := range m.Ids {
		s.copyOther(a, job.ID(id))
	}
	if m.NotDue {
		for _, id := range s.notDueJobs() {
			s.copyOther(a, id)
		}
	}
	ctx.Respond(a)
}

// copyOther adds a job that is not among the first candidates, and the jobs that it waits for, with what they wait for. At most
// SnapshotMax jobs are added.
func (s *scheduler) copyOther(a *Snapshot, id job.ID) {
	for next := []job.ID{id}; len(next) > 0 && len(a.world.Waiting)+len(a.world.Beyond) < SnapshotMax; next = next[1:] {
		id := next[0]
		j := s.jobs[id]
		if _, known := a.opcodes[id]; known || j == nil {
			continue
		}
		if _, candidate := s.state.Explain(id, a.world.Now, 0); candidate {
			s.copyJob(a, &a.world.Beyond, id)
			continue
		}
		s.copyJob(a, &a.world.Waiting, id)
		waiting := &a.world.Waiting[len(a.world.Waiting)-1]
		for _, d := range s.graph.Unmet(id) {
			on := job.ID(d.Job)
			waiting.After = append(waiting.After, on)
			next = append(next, on)
			if len(d.Statuses) > 0 && !slices.Contains(d.Statuses, job.Success.String()) {
				waiting.Obstacle = forecast.Dependency // it waits for a failure
			}
		}
		switch verb := filter.VerbOf(j.verdict); {
		case j.hold != nil && j.paused():
			waiting.Obstacle, waiting.By = forecast.Hold, j.hold.By
		case verb == filter.Pause && j.paused(), verb == filter.Reject && !j.running:
			waiting.Obstacle, waiting.By = forecast.Filter, j.verdict.Rule
		case j.due != nil && !j.running && j.due.DueUs > a.world.Now.UnixMicro():
			waiting.Obstacle, waiting.Due = forecast.Due, time.UnixMicro(j.due.DueUs)
		case len(waiting.After) == 0 && waiting.Obstacle == forecast.NoObstacle:
			waiting.Obstacle = forecast.Behind // it is between two opcodes, and has not asked for the next one
		}
	}
}

func (s *scheduler) copyJob(a *Snapshot, list *[]forecast.Job, id job.ID) {
	j := s.jobs[id]
	if j == nil {
		return
	}
	c := forecast.Job{
		ID:         id,
		Priority:   j.priority,
		ReceivedUs: j.receivedUs,
		Limits:     j.allLimits(),
		Continues:  j.running && !s.state.Running(id),
	}
	if j.beganUs > 0 {
		c.Began = time.UnixMicro(j.beganUs)
	}
	a.opcodes[id] = remaining{j.name, j.encoded, j.op}
	*list = append(*list, c)
}
