package sim

import (
	"encoding/json"
	"fmt"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/sim/kernel"
)

// stage is how far a job process has come. The process may die or hang at each stage.
type stage string

// The stages in their order. A process may act on its job from stageConfirmed on.
const (
	stageSpawned   stage = "spawned"
	stageLocked    stage = "has its lock file"
	stageNamed     stage = "has named its lock file"
	stagePermitted stage = "has its permission"
	stageAnswered  stage = "has acknowledged its permission"
	stageConfirmed stage = "has its launch spec"
	stageExecuting stage = "executes"
	stageExecuted  stage = "has executed"
	stageEnding    stage = "has written its end"
	stageReleased  stage = "has removed its lock file"
)

// process is a simulated job process: lockstep-job, step by step.
type process struct {
	machine          *machine
	pid              int
	job              int64
	life             *kernel.Lifetime
	thread           *kernel.Thread
	stdin            *pipe // from the daemon
	stdout           *pipe // to the daemon
	livelock         string
	start            int64 // number of the start in the life of the job
	begun            bool  // the mark in the lock file is revoked: the process may have begun its job
	hung             bool
	lease            jobproc.LeaseGuard
	permitted        bool // from the daemon's permission to the last write
	endWritten       bool // the end of the job, or of a try, is in the job's file
	launched         bool // the process has received its launch spec
	awaitsPermission bool // to begin the next opcode
	launchSpecs      []jobproc.LaunchSpec
	heldLocks        []lock.Item      // for the opcode that executes
	shell            *shell           // nil: the job has not begun, or the program is Ganeti's
	ganetis          bool             // the program is Ganeti's
	ganeti           *ganetiProcess   // nil: as for shell
	onWrite          func()           // tells the daemon of what Ganeti's program has written; nil: no daemon watches
	canceled         bool             // the daemon has ended it by a cancel
	signals          []jobs.OrderKind // that came before there was a shell
	exitText         string           // how the process has ended; "": it lives
	watchers         []func()
}

func (p *process) tracef(format string, args ...any) {
	p.machine.node.tracef(topicProcess, "job %d: "+format, append([]any{p.job}, args...)...)
}

// reach records a stage, and reports whether the process continues from there: a fault may kill it or make it hang.
func (p *process) reach(s stage) bool {
	p.tracef("process %s", s)
	switch p.machine.world.processFault(p, s) {
	case processDies:
		p.kill("SIGKILL")
		return false
	case processHangs:
		if p.machine.node.clustered() {
			p.kill("SIGKILL") // one that hangs does not check its lease
			return false
		}
		p.hang()
		return false
	}
	return true
}

// starves reports whether the process does not pass a stage while the machine has no room for its threads or its lock
// file. The stage differs from process to process.
func (p *process) starves(s stage) bool {
	if p.pid%2 == 0 {
		return s == stageSpawned
	}
	return s == stageLocked
}

// hang suspends the process, with its lock held, until it is killed.
func (p *process) hang() {
	p.machine.world.trace.addf(topicFault, "job %d: process hangs", p.job)
	p.hung = true
	p.thread.Drop()
	p.thread = kernel.NewThread(p.machine.world.kernel, &kernel.Lifetime{Over: true})
}

// then adds the process's next step. It is dropped when the process has ended.
func (p *process) then(f func()) { p.thread.Do(f) }

func (p *process) main() {
	if !p.reach(stageSpawned) {
		return
	}
	p.afterLoading(func() {
		p.livelock = p.machine.newLivelock(paths.JobLivelockName(p.job, p.start), p.pid, p)
		if p.reach(stageLocked) {
			p.then(p.handshake)
		}
	})
}

// afterLoading is the process's next step when its program has loaded.
func (p *process) afterLoading(f func()) {
	w := p.machine.world
	if delay := w.holders.loading(); delay > 0 {
		w.clock.After(delay, p.life, func() { p.then(f) })
		return
	}
	p.then(f)
}

// handshake is the process's side of the start handshake. After a broken pipe the process must not act.
func (p *process) handshake() {
	if p.stdout.write([]byte(p.livelock)) != nil {
		p.exit("no permission to start")
		return
	}
	if !p.reach(stageNamed) {
		return
	}
	p.read(func([]byte) {
		if !p.reach(stagePermitted) {
			return
		}
		p.then(func() {
			if p.stdout.write(nil) != nil {
				p.exit("no permission to start")
				return
			}
			if p.reach(stageAnswered) {
				p.read(p.confirmed)
			}
		})
	})
}

func (p *process) read(then func([]byte)) {
	p.stdin.read(p.machine.world.clock, p.thread, 0, func(frame []byte, err error) {
		if err != nil {
			p.exit("no permission to start: " + err.Error())
			return
		}
		then(frame)
	})
}

func (p *process) confirmed(frame []byte) {
	if err := json.Unmarshal(frame, &p.launchSpecs); err != nil && !p.ganetis {
		p.exit("the launch specs of the daemon: " + err.Error())
		return
	}
	if len(p.launchSpecs) > 0 && p.launchSpecs[0].Followed {
		for i := range p.launchSpecs {
			p.launchSpecs[i].LogLimit = followedLogs
		}
	}
	p.stdin.closeReader()
	p.stdout.closeWriter()
	if p.reach(stageConfirmed) {
		p.then(p.loadJob)
	}
}

// loadJob reads the job file, which must name this process, and begins the job.
func (p *process) loadJob() {
	if !p.checkLease() {
		return
	}
	p.watchLease()
	if p.ganetis {
		p.ganeti = newGanetiProcess(p)
		for _, kind := range p.signals {
			p.signal(kind)
		}
		p.ganeti.begin()
		return
	}
	loaded, err := p.load()
	if err != nil {
		p.exit(err.Error())
		return
	}
	p.shell = newShell(p, loaded)
	for _, kind := range p.signals {
		p.signal(kind)
	}
	p.begun = !p.machine.world.mutations.LateMark
	p.shell.begin()
}

func (p *process) load() (*jobproc.Process, error) {
	content, err := p.machine.node.disk.Read("run-job", paths.JobPath(p.job))
	if err != nil {
		return nil, err
	}
	j, err := job.Decode(content)
	if err != nil {
		return nil, err
	}
	if j.Livelock != p.livelock && !p.machine.world.mutations.AnyLivelock {
		return nil, fmt.Errorf("the job's file names another process: %s", j.Livelock)
	}
	return jobproc.NewProcess(j, p.launchSpecs, jobproc.Identity{
		Livelock:      p.livelock,
		Pid:           p.pid,
		ReportSizeMax: p.machine.world.options.ReportMax,
	})
}

// exit is an orderly end: the lock file is removed, then the process ends. With a complaint the process gives up before it
// has begun the job. lockstep-job leaves its lock file then; Ganeti's program ends as always.
func (p *process) exit(complaint string) {
	if complaint != "" {
		p.machine.world.trace.addf(topicProcess, "job %d: process complains: %s", p.job, complaint)
	}
	if complaint != "" && !p.ganetis {
		p.then(func() { p.permitted = false; p.ended("exit status 1") })
		return
	}
	p.then(func() {
		delete(p.machine.livelocks, p.livelock)
		p.permitted = false
		if p.reach(stageReleased) {
			p.then(func() { p.ended("exit status 0") })
		}
	})
}

// kill ends the process with a signal. Its commands survive. Its lock file stays and is not locked.
func (p *process) kill(signal string) {
	if !p.life.Over {
		p.ended("ended by " + signal)
	}
}

func (p *process) ended(how string) {
	m := p.machine
	p.life.Over, p.exitText = true, how
	for i, other := range m.processes {
		if other == p {
			m.processes = append(m.processes[:i:i], m.processes[i+1:]...)
			break
		}
	}
	if p.shell != nil {
		p.shell.hangUp()
	}
	if p.ganeti != nil {
		p.ganeti.wconfd.hangUp()
	}
	p.tracef("process %s", how)
	p.stdin.closeReader()
	p.stdout.closeWriter()
	for _, tell := range p.watchers {
		tell()
	}
	p.watchers = nil
	m.world.notify(processEnded{p})
}

// whenEnded runs f once when the process has ended, or at once if it has ended before.
func (p *process) whenEnded(f func()) {
	if p.life.Over {
		f()
		return
	}
	p.watchers = append(p.watchers, f)
}
