package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/job"
	"lockstep/core/paths"
)

// audit asks the daemon in charge what it knows of the jobs that its processes have in
// hand, whenever nothing can happen before time passes: what clients are told must be
// what the files say then. It asks once for each state of a file, and again for what was
// not in order. Nothing else happens meanwhile, and the dice are left as they were: a
// run is the same without it.
type audit struct {
	world  *World
	caller *caller
	daemon *daemon             // that was asked last
	known  map[*process]string // shape of the file that it was found to know
	rests  map[*process]resting
	next   time.Time // not before
}

// resting is a process that does not write, with what its job's file says.
type resting struct {
	shape string
	since time.Time
}

// auditPause is when what was not in order is asked for again.
const auditPause = 50 * time.Millisecond

func newAudit(w *World) *audit {
	return &audit{world: w, known: map[*process]string{}, rests: map[*process]resting{},
		caller: &caller{world: w, thread: newThread(w.steps, w.life)}}
}

// look is called when all is quiet.
func (a *audit) look() {
	w, n := a.world, a.world.charge
	if n == nil || n.daemon == nil || n.daemon.tree == nil || !n.daemon.ready || n.daemon.stopping || n.daemon.life.paused || n.daemon.boxes.suspended > 0 {
		return
	}
	if a.daemon != n.daemon {
		a.caller.node, a.daemon = n, n.daemon
		clear(a.known)
	}
	a.watch(n)
	var asked []*process
	for _, p := range n.machine.processes {
		if r, rests := a.rests[p]; rests && a.known[p] != r.shape {
			asked = append(asked, p)
		}
	}
	if len(asked) > 0 && !w.clock.now.Before(a.next) {
		a.next = w.clock.now.Add(auditPause)
		a.ask(asked)
	}
}

// ask has the daemon asked and answer, before anything else happens.
func (a *audit) ask(of []*process) {
	w := a.world
	dice, _ := w.dice.MarshalBinary() // it never fails
	w.chaos.asleep = true
	ids := make([]int64, len(of))
	for i, p := range of {
		ids[i] = p.job
	}
	a.caller.call("QueryJobs", []any{ids, []string{"opstatus", "oppriority"}}, patience, func(result json.RawMessage, err error) {
		if err == nil {
			a.answered(result, of)
		}
	})
	for w.steps.step() {
	}
	a.caller.giveUp()
	a.caller.hangUp()
	for w.steps.step() {
	}
	w.chaos.asleep = false
	_ = w.dice.UnmarshalBinary(dice)
}

// watch notes who rests, and tells of it.
func (a *audit) watch(n *node) {
	here := make(map[*process]resting, len(a.rests))
	for _, p := range n.machine.processes {
		shape := p.restsIn()
		if shape == "" {
			continue
		}
		r := a.rests[p]
		if r.shape != shape {
			r = resting{shape, a.world.clock.now}
		}
		here[p] = r
		a.world.notify(processRests{p, shape, r.since})
	}
	a.rests = here
}

func (a *audit) answered(result json.RawMessage, of []*process) {
	var rows [][2]json.RawMessage
	mustDecode(result, &rows)
	for i, p := range of {
		var statuses []string
		var priorities []int
		if string(rows[i][0]) != "null" {
			mustDecode(rows[i][0], &statuses)
			mustDecode(rows[i][1], &priorities)
		}
		told, is := fmt.Sprint(statuses, priorities), a.rests[p]
		if told == is.shape {
			a.known[p] = told
		}
		a.world.notify(viewTold{p, is.shape, told, is.since})
	}
}

// restsIn is what the file of a process's job says, while the process does nothing
// about it; "" while it does.
func (p *process) restsIn() string {
	d := p.driver
	if p.life.over || p.hung || p.ending || d == nil || d.ended || d.writing || d.pending || len(d.events) > 0 || len(p.thread.queue) > 0 {
		return ""
	}
	f := p.machine.node.disk.find(paths.JobPath(p.job))
	if f == nil || f.reading().job == nil || f.reading().job.Livelock != p.livelock {
		return ""
	}
	return shapeOf(f.reading().job)
}

// shapeOf is the statuses and priorities of a job's opcodes.
func shapeOf(j *job.Job) string {
	var statuses []string
	var priorities []int
	for i := range j.Ops {
		statuses, priorities = append(statuses, j.Ops[i].Status.String()), append(priorities, j.Ops[i].Priority)
	}
	return fmt.Sprint(statuses, priorities)
}
