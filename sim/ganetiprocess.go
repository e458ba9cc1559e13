package sim

import (
	"encoding/json"
	"strings"
	"time"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/core/rawjson"
	"lockstep/sim/kernel"
)

// ganetiProcess is what Ganeti's job program does after the handshake (locks.md 2.5; queue.md 4.6), for OP_TEST_DELAY. It asks
// nobody before an opcode, but asks WConfD for the big lock, shared, and then for the locks of the opcode. After an attempt without
// success it frees what it has, and looks at a cancel.
type ganetiProcess struct {
	process  *process
	wconfd   *rpcClient
	job      *job.Job
	op       int
	attempts int // of this opcode
	deadline time.Time
	woken    bool   // SIGHUP came since the last question
	onWake   func() // nil: it does not wait for a signal
	canceled bool   // SIGTERM came
	priority *int   // that SIGUSR1 brought
}

// Times of the program.
const (
	ganetiCallMax    = time.Minute
	ganetiRetry      = time.Second
	ganetiAttemptMin = 5 * time.Second
	ganetiAttemptMax = 75 * time.Second
)

func newGanetiProcess(p *process) *ganetiProcess {
	return &ganetiProcess{process: p, wconfd: &rpcClient{world: p.machine.world, node: p.machine.node, thread: p.thread, wconf: true}}
}

// begin reads the job, and begins its first opcode. If its file names another process, this one ends.
func (g *ganetiProcess) begin() {
	content, err := g.process.machine.node.disk.Read("run-job", paths.JobPath(g.process.job))
	if err == nil {
		g.job, err = job.Decode(content)
	}
	if err != nil {
		g.process.exit(err.Error())
		return
	}
	if g.job.Livelock != g.process.livelock {
		g.process.exit("the job's file names another process: " + g.job.Livelock)
		return
	}
	g.next()
}

func (g *ganetiProcess) now() job.Timestamp {
	return job.TimestampOf(g.process.machine.world.clock.Now())
}

// next continues with the first opcode that has not ended, unless the job was canceled: the file shows that it waits for locks.
func (g *ganetiProcess) next() {
	_, g.op = g.job.Progress()
	g.attempts = 0
	if g.canceledNow() {
		return
	}
	op := &g.job.Ops[g.op]
	op.Take(job.Begin)
	op.Start = g.now()
	if g.job.Start.IsZero() {
		g.job.Start = op.Start
	}
	g.write(g.attempt)
}

// canceledNow takes another priority, if there is one, and ends the job after a cancel. It reports whether it has ended the job.
func (g *ganetiProcess) canceledNow() bool {
	if g.priority != nil {
		g.job.Reprioritise(*g.priority)
		g.priority = nil
	}
	if g.canceled {
		g.job.CancelUnstarted(rawjson.Quote(jobproc.CanceledByRequest), g.now())
		g.end()
	}
	return g.canceled
}

// attempt tries to get the locks of the opcode, for a time that grows with the attempts.
func (g *ganetiProcess) attempt() {
	if g.canceledNow() {
		return
	}
	g.process.awaitsPermission = true
	length := min(ganetiAttemptMin<<min(g.attempts, 10), ganetiAttemptMax)
	g.attempts++
	g.deadline = g.process.machine.world.clock.Now().Add(length)
	g.acquire(lock.Request{{Lock: lock.BGL, Mode: lock.Shared}}, func() {
		if own := ganetiLocks(g.job.Ops[g.op].Input); own != nil {
			g.acquire(own, g.start)
			return
		}
		g.start()
	})
}

// ganetiLocks are the locks of an opcode beside the big lock: those of its nodes.
func ganetiLocks(input json.RawMessage) (own lock.Request) {
	var op opInput
	mustDecode(input, &op)
	for _, node := range op.OnNodes {
		own = append(own, lock.Item{Lock: lock.Member(lock.Node, node), Mode: lock.Exclusive})
	}
	return own
}

func (g *ganetiProcess) owner() lock.Owner {
	return lock.JobOwner(job.ID(g.process.job), g.process.livelock, g.process.pid)
}

// acquire makes a request, and waits until it is granted or the attempt ends.
func (g *ganetiProcess) acquire(r lock.Request, granted func()) {
	g.woken = false
	g.call("updateLocksWaiting", []any{g.owner(), g.job.Ops[g.op].Priority, r}, func(json.RawMessage) { g.awaitGrant(granted, false) })
}

// awaitGrant asks whether the request waits, and after a signal again, and once more at the end of the attempt.
func (g *ganetiProcess) awaitGrant(granted func(), last bool) {
	g.call("hasPendingRequest", []any{g.owner()}, func(pending json.RawMessage) {
		switch {
		case string(pending) == "false":
			granted()
		case last:
			g.release(g.attempt)
		default:
			g.awaitSignal(granted)
		}
	})
}

func (g *ganetiProcess) awaitSignal(granted func()) {
	clock := g.process.machine.world.clock
	waits := true
	var stop func() bool
	again := func(last bool) {
		if waits {
			waits, g.onWake, g.woken = false, nil, false
			stop()
			g.awaitGrant(granted, last)
		}
	}
	g.onWake = func() { again(false) }
	stop = clock.After(max(0, g.deadline.Sub(clock.Now())), g.process.life, func() { g.process.then(func() { again(true) }) })
	if g.woken {
		g.onWake()
	}
}

// wake is SIGHUP: the lock manager may have granted a request.
func (g *ganetiProcess) wake() {
	g.woken = true
	if g.onWake != nil {
		g.onWake()
	}
}

// release frees all locks, the innermost level first.
func (g *ganetiProcess) release(then func()) {
	g.call("freeLocksLevel", []any{g.owner(), "node"}, func(json.RawMessage) {
		g.call("freeLocksLevel", []any{g.owner(), "cluster"}, func(json.RawMessage) { then() })
	})
}

// start begins the execution, which the file says before.
func (g *ganetiProcess) start() {
	p := g.process
	p.heldLocks = append([]lock.Item{{Lock: lock.BGL, Mode: lock.Shared}}, ganetiLocks(g.job.Ops[g.op].Input)...)
	p.awaitsPermission = false
	op := &g.job.Ops[g.op]
	op.Take(job.Execute)
	op.Exec = g.now()
	g.write(func() {
		if !p.reach(stageExecuting) {
			return
		}
		var input opInput
		mustDecode(op.Input, &input)
		seconds, _ := input.Duration.Float64()
		p.machine.world.notify(opcodeStarted{node: p.machine.node, process: p, job: p.job, op: g.op, tag: tagOf(op.Input), input: op.Input})
		p.machine.world.clock.After(time.Duration(seconds*float64(time.Second)), p.life, func() { p.then(g.executed) })
	})
}

func (g *ganetiProcess) executed() {
	p := g.process
	p.heldLocks = nil
	p.machine.world.notify(opcodeEnded{process: p})
	if !p.reach(stageExecuted) {
		return
	}
	g.release(func() {
		op := &g.job.Ops[g.op]
		op.Take(job.Succeed)
		op.Result, op.End = json.RawMessage("null"), g.now()
		if g.op == len(g.job.Ops)-1 {
			g.job.End = op.End
			g.end()
			return
		}
		g.write(g.next)
	})
}

// end writes the end of the job, and then ends the process.
func (g *ganetiProcess) end() {
	g.write(func() {
		g.process.permitted = false
		if g.process.reach(stageEnding) {
			g.process.exit("")
		}
	})
}

// write writes the job file until that succeeds, and then calls then.
func (g *ganetiProcess) write(then func()) {
	p := g.process
	p.then(func() {
		if err := p.machine.node.disk.Replace("run-job", paths.JobPath(p.job), job.Encode(g.job)); err != nil {
			p.machine.world.clock.After(ganetiRetry, p.life, func() { g.write(then) })
			return
		}
		p.wrote()
		then()
	})
}

// call makes a call to WConfD, again and again until it is answered.
func (g *ganetiProcess) call(method string, args []any, then func(json.RawMessage)) {
	g.wconfd.call(method, args, ganetiCallMax, func(result json.RawMessage, err error) {
		if err == nil {
			then(result)
			return
		}
		g.process.machine.world.clock.After(ganetiRetry, g.process.life, func() {
			g.process.then(func() { g.call(method, args, then) })
		})
	})
}

// signalled handles SIGTERM, a cancel, and SIGUSR1, another priority. They count at the next look.
func (g *ganetiProcess) signalled(kind jobs.OrderKind) {
	switch priority, sent := g.process.machine.priorities[g.process.job]; {
	case kind == jobs.StopBeforeNext:
		g.canceled = true
	case kind == jobs.TakePriority && sent:
		g.priority = &priority
	}
}

// executesNothing reports whether the file of the job says that no opcode executes, and that the job has not ended.
func (p *process) executesNothing() bool {
	f := p.machine.node.disk.Find(paths.JobPath(p.job))
	if f == nil {
		return false
	}
	r := parseJob(f.Data)
	if r.err != nil || r.job.Status().Final() {
		return false
	}
	executing, _ := r.job.Progress()
	return executing < 0
}

// watchFile makes the port tell the job's actor of each content that the process writes.
func (p *process) watchFile(t *kernel.Thread, tell func()) {
	p.onWrite = func() { t.Do(tell) }
}

// wrote tells the port that the process has replaced the job's file.
func (p *process) wrote() {
	if p.onWrite != nil {
		p.onWrite()
	}
}

// ofOneProgram makes each job of Ganeti mode one whose opcodes all have the same program, by its first opcode. The later opcodes of
// a job of Ganeti's have no dependencies, which the simulated program does not look at.
func ofOneProgram(jobs [][]OpSpec) [][]OpSpec {
	changed := make([][]OpSpec, len(jobs))
	for n, ops := range jobs {
		if len(ops) == 0 {
			continue
		}
		ganetis := len(ops[0])%2 == 0
		for i, op := range ops {
			var kept []string
			for _, word := range strings.Fields(string(op)) {
				key, _, _ := strings.Cut(word, "=")
				if key == "limit" || key == "reason" || key == "priority" || key == "request" || key == "after" && (i == 0 || !ganetis) {
					kept = append(kept, word)
				}
			}
			name, _, _ := strings.Cut(string(op), " ")
			base := string(op)
			switch {
			case ganetis:
				delays := []string{"delay 0.01", "delay 0.3", "delay 2 a", "delay 0.01 a", "delay 0.3 b", "delay 1 a b"}
				base = strings.Join(append([]string{delays[len(base)%6]}, kept...), " ")
			case name != "run":
				base = strings.Join(append([]string{"run run_for=0.01"}, kept...), " ")
			}
			changed[n] = append(changed[n], OpSpec(base))
		}
	}
	return changed
}
