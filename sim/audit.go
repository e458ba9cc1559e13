package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/sim/kernel"
)

// audit asks the deciding daemon for the status of each job whose process rests. It asks when
// no step is left before the time moves, once for each state of a job's file, and again after
// a wrong answer. The answer must be what the file says. No fault happens during the question,
// and the dice are restored after it: the run is the same without the audit.
type audit struct {
	world   *World
	rpc     *rpcClient
	daemon  *daemon             // the daemon that was asked last
	known   map[*process]string // shape of the file that the daemon was found to know
	resting map[*process]restingProcess
	next    time.Time // no question before this time
}

// restingProcess is a process that does not write, with the summary of its job's file.
type restingProcess struct {
	summary string
	since   time.Time
}

// auditPause is the least time between two questions.
const auditPause = 50 * time.Millisecond

func newAudit(w *World) *audit {
	return &audit{world: w, known: map[*process]string{}, resting: map[*process]restingProcess{},
		rpc: &rpcClient{world: w, thread: kernel.NewThread(w.kernel, w.life)}}
}

// run asks the deciding daemon about the processes that rest in a state that the audit has not asked about, at most once in auditPause.
// It does nothing if no daemon can answer. World calls it when no step is left before the time moves.
func (a *audit) run() {
	w, n := a.world, a.world.decider
	if n == nil || !n.daemon.canAnswer() {
		return
	}
	if a.daemon != n.daemon {
		a.rpc.node, a.daemon = n, n.daemon
		clear(a.known)
	}
	a.scan(n)
	var asked []*process
	for _, p := range n.machine.processes {
		if r, rests := a.resting[p]; rests && a.known[p] != r.summary {
			asked = append(asked, p)
		}
	}
	if len(asked) > 0 && !w.clock.Now().Before(a.next) {
		a.next = w.clock.Now().Add(auditPause)
		a.query(asked)
	}
}

// canAnswer reports whether the daemon, if there is one, serves, and neither it nor an actor of it is stopped.
func (d *daemon) canAnswer() bool {
	serves := d != nil && d.tree != nil && d.ready && !d.stopping
	return serves && !d.life.Paused && d.mailboxes.suspended <= 0
}

// query asks the daemon for the status of the jobs of these processes, and steps until it has answered. Meanwhile there are no faults,
// and the random choices of the run stay as they are.
func (a *audit) query(of []*process) {
	w := a.world
	dice, _ := w.dice.MarshalBinary() // it never fails
	w.injector.disabled = true
	ids := make([]int64, len(of))
	for i, p := range of {
		ids[i] = p.job
	}
	a.rpc.call("QueryJobs", []any{ids, []string{"opstatus", "oppriority"}}, answerMax, func(result json.RawMessage, err error) {
		if err == nil {
			a.answered(result, of)
		}
	})
	for w.kernel.Step() {
	}
	a.rpc.abandon()
	a.rpc.hangUp()
	for w.kernel.Step() {
	}
	w.injector.disabled = false
	_ = w.dice.UnmarshalBinary(dice)
}

// scan records which processes of a node rest and since when, and notifies the checkers of each.
func (a *audit) scan(n *node) {
	here := make(map[*process]restingProcess, len(a.resting))
	for _, p := range n.machine.processes {
		shape := p.restingSummary()
		if shape == "" {
			continue
		}
		r := a.resting[p]
		if r.summary != shape {
			r = restingProcess{shape, a.world.clock.Now()}
		}
		here[p] = r
		a.world.notify(processResting{p, shape, r.since})
	}
	a.resting = here
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
		reported, is := fmt.Sprint(statuses, priorities), a.resting[p]
		if reported == is.summary {
			a.known[p] = reported
		}
		a.world.notify(viewReported{p, is.summary, reported, is.since})
	}
}

// restingSummary is what the file of a process's job says while the process does nothing about
// it. It is "" while the process works.
func (p *process) restingSummary() string {
	if p.life.Over || p.hung || p.lease.Ending() || p.shell == nil || !p.shell.jobproc.IsResting() || p.thread.Busy() {
		return ""
	}
	f := p.machine.node.disk.Find(paths.JobPath(p.job))
	if f == nil || jobIn(f).job == nil || jobIn(f).job.Livelock != p.livelock {
		return ""
	}
	return opSummary(jobIn(f).job)
}

// opSummary is the statuses and priorities of a job's opcodes as text.
func opSummary(j *job.Job) string {
	var statuses []string
	var priorities []int
	for i := range j.Ops {
		statuses, priorities = append(statuses, j.Ops[i].Status.String()), append(priorities, j.Ops[i].Priority)
	}
	return fmt.Sprint(statuses, priorities)
}
