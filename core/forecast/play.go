package forecast

import (
	"cmp"
	"slices"
	"time"

	"lockstep/core/heap"
	"lockstep/core/job"
	"lockstep/core/lock"
	"lockstep/core/sched"
)

// play is one play. It ends when no job runs, or when more says so.
type play struct {
	pace   Pace
	state  *sched.State
	now    time.Time
	ends   heap.Heap[opEnd, opEndOrder]
	jobs   map[job.ID]*played
	after  map[job.ID][]*played // the jobs that wait for the end of a job
	freed  *lock.View           // the locks of the opcodes that end now
	ending []*played            // their jobs
	cut    bool                 // more has ended the play
}

// played is a job as one play has it: how far it has come. A zero time has not come.
type played struct {
	*Job
	op         int
	missing    int // how many jobs it waits for
	start, end time.Time
	ready      time.Time // when the last job that it waits for has ended
	wait       Wait
	guessed    Obstacle // why its start is a guess
	guessedBy  string
	began      time.Time // when its opcode began
}

// opEnd is the moment at which a running job's present opcode will end in a play.
type opEnd struct {
	at time.Time
	id job.ID
}

type opEndOrder struct{}

func (opEndOrder) Before(a, b opEnd) bool {
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.id, b.id)) < 0
}
func (opEndOrder) Moved(opEnd, int) {}

func ownerOf(id job.ID) lock.Owner { return lock.Owner{Job: id} }

// newPlay returns a play at the present state of the world, in which opcodes take as long as pace says. Waiting jobs with an obstacle are
// not part of it.
func newPlay(w *World, pace Pace) *play {
	settings := w.Settings
	settings.StartUnblocked = true // a job that is picked begins its opcode at once
	p := &play{pace: pace, state: sched.NewState(settings), now: w.Now, jobs: map[job.ID]*played{}, after: map[job.ID][]*played{}}
	for i := range w.Running {
		j := &w.Running[i]
		p.jobs[j.ID] = &played{Job: j, start: w.Now}
		elapsed := time.Duration(0)
		if !j.Began.IsZero() {
			elapsed = max(w.Now.Sub(j.Began), 0)
		}
		c, left := j.candidate(0), pace.left(j.Ops[0].Takes, elapsed)
		c.Expected = left // for the state, its opcode begins now
		p.state.AddRunning(c)
		p.ends.Push(opEnd{w.Now.Add(left), j.ID})
	}
	for _, o := range w.Locks {
		p.state.SetOwnerLocks(o.Owner, o.Held, o.Pending)
	}
	for i := range w.First {
		j := &w.First[i]
		p.jobs[j.ID] = &played{Job: j}
		p.restore(j)
		p.state.Enqueue(j.candidate(0))
	}
	for i := range w.Waiting {
		j := &w.Waiting[i]
		if j.Obstacle != NoObstacle {
			continue
		}
		waiting := &played{Job: j, missing: len(j.After)}
		p.jobs[j.ID] = waiting
		p.restore(j)
		for _, on := range j.After {
			p.after[on] = append(p.after[on], waiting)
		}
	}
	return p
}

// restore makes a job that waits between two opcodes one without a slot.
func (p *play) restore(j *Job) {
	if j.Continues {
		p.state.AddRunning(j.candidate(0))
		p.state.Yield(j.ID)
	}
}

// run plays until no job runs, or until more returns false, which it asks before each step in time. In the second case p.cut is set.
func (p *play) run(more func() bool) {
	for {
		p.freedBy()
		for again := true; again; again = p.state.Unfinished() {
			for _, id := range p.state.Pick(p.now) {
				p.begin(p.jobs[id])
			}
		}
		if p.ends.Len() == 0 {
			return
		}
		if !more() {
			p.cut = true
			return
		}
		p.now, p.ending = p.ends.First().at, p.ending[:0]
		for p.ends.Len() > 0 && p.ends.First().at.Equal(p.now) {
			p.ending = append(p.ending, p.jobs[p.ends.Pop().id])
		}
		for _, j := range p.ending {
			p.endOp(j)
		}
	}
}

// freedBy makes the view of the locks that the ending opcodes had.
func (p *play) freedBy() {
	p.freed = lock.NewView(lock.Implied)
	for _, j := range p.ending {
		op := j.op
		if j.end.IsZero() {
			op-- // its next opcode has become the current one
		}
		p.freed.Set(ownerOf(j.ID), j.Ops[op].Declared.Request(), func(lock.Point) {})
	}
}

// begin starts the current opcode of a job that the order has picked, and notes what the job has waited for if this is its start.
func (p *play) begin(j *played) {
	j.began = p.now
	p.ends.Push(opEnd{p.now.Add(p.pace.of(j.Ops[j.op].Takes)), j.ID})
	if !j.start.IsZero() {
		return // it goes on with a later opcode
	}
	j.start = p.now
	if len(p.ending) == 0 {
		return
	}
	j.wait = p.waitOf(j)
	for _, id := range j.wait.Jobs {
		if by := p.jobs[id]; by != nil && j.guessed == NoObstacle {
			if kind, unknown := by.unknownKind(); unknown {
				j.guessed, j.guessedBy = NoHistory, kind
			} else {
				j.guessed, j.guessedBy = by.guessed, by.guessedBy
			}
		}
	}
}

// waitOf returns what a job that starts now has waited for last: jobs that it depends on, locks and whose, or a slot.
func (p *play) waitOf(j *played) Wait {
	if j.ready.Equal(p.now) {
		return Wait{ForJobs, slices.Clone(j.After)}
	}
	if owners := p.freed.Blockers(ownerOf(j.ID), j.Ops[j.op].Declared.Request()); len(owners) > 0 {
		w := Wait{Kind: ForLocks}
		for _, o := range owners {
			w.Jobs = append(w.Jobs, o.Job)
		}
		return w
	}
	w := Wait{Kind: ForSlot}
	for _, e := range p.ending {
		shares := func(l sched.Limit) bool {
			return slices.ContainsFunc(e.Limits, func(m sched.Limit) bool { return m.Key == l.Key })
		}
		if slices.ContainsFunc(j.Limits, shares) {
			w.Kind = ForLimit
		}
		w.Jobs = append(w.Jobs, e.ID)
	}
	return w
}

// endOp ends the running opcode of a job. The job begins the next one, gives its slot back before it, or ends.
func (p *play) endOp(j *played) {
	p.state.SetOwnerLocks(ownerOf(j.ID), nil, nil)
	if j.op+1 < len(j.Ops) {
		j.op++
		next := j.Ops[j.op].Declared
		if c := j.candidate(j.op); p.state.GivesSlotBack(c, p.now) {
			p.state.Yield(j.ID)
			p.state.Enqueue(c)
			return
		}
		p.state.SetDeclared(j.ID, next, lock.Declaration{})
		p.begin(j)
		return
	}
	j.end = p.now
	p.state.Remove(j.ID)
	for _, waiting := range p.after[j.ID] {
		if waiting.missing--; waiting.missing == 0 {
			waiting.ready = p.now
			p.state.Enqueue(waiting.candidate(0))
		}
	}
}
