package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"lockstep/core/job"
	"lockstep/core/paths"
	"lockstep/persistence"
	"lockstep/sim/kernel"
)

// livelockDir is the directory of the lock files of new processes, as in production. It does not survive the machine.
func (m *machine) livelockDir() string { return m.runDir + "/livelocks/" }

// local is the path at which the daemon looks for the lock file of an owner of locks: by its name, in its own run directory. It looks for
// that of a job process at the path in the job file.
func (m *machine) local(livelock string) string { return m.livelockDir() + path.Base(livelock) }

// machine is the part of a node below the daemon: processes, their commands, lock files. It
// outlives daemons.
type machine struct {
	world   *World
	node    *node
	lastPid int
	boots   int
	runDir  string // of the daemon
	// processes and commands that live, by age
	processes []*process
	commands  []*command
	sessions  []*configSession
	// livelocks holds the lock files that exist, with the process that made
	// each. The process may be dead.
	livelocks map[string]*process
	// formerBoots holds the lock files that a power loss has left. Each may have the mark that its process has not begun.
	formerBoots map[string]bool
	// bootNotes holds the lock file of the last process of a job of Ganeti's program, since the boot.
	bootNotes  map[int64]string
	guardAwake bool // the guard has a look before it
	// priorities holds the priority that was sent to a process, by job.
	priorities map[int64]int
}

func newMachine(n *node) *machine {
	return &machine{
		world:       n.world,
		node:        n,
		lastPid:     1000,
		runDir:      runDirs[0],
		livelocks:   map[string]*process{},
		formerBoots: map[string]bool{},
		bootNotes:   map[int64]string{},
		priorities:  map[int64]int{},
	}
}

func (m *machine) newLivelock(name string, pid int, owner *process) string {
	livelock := fmt.Sprintf("%s%s_%d_%d_%08x", m.livelockDir(), name, m.world.clock.Now().Unix(), pid, m.world.rng.Uint32())
	m.livelocks[livelock] = owner
	return livelock
}

// alive reports whether the process of a livelock lives, by the rule of every part of lockstep:
// the file exists and is locked.
func (m *machine) alive(livelock string) bool {
	p := m.livelocks[livelock]
	return p != nil && !p.life.Over
}

// checkNothingLivesIn is as in persistence: it refuses to leave a run directory in which a process lives.
func (m *machine) checkNothingLivesIn(former, _ string) error {
	refusal := &persistence.FormerRunDirError{Former: former}
	for _, livelock := range slices.Sorted(maps.Keys(m.livelocks)) {
		if p := m.livelocks[livelock]; p != nil && !p.life.Over && strings.HasPrefix(livelock, former+"/") {
			refusal.Living = append(refusal.Living, path.Base(livelock))
		}
	}
	if refusal.Living == nil {
		return nil
	}
	return refusal
}

// spawn starts the process of a job, which does nothing yet.
func (m *machine) spawn(id int64) *process {
	p := m.newProcess()
	p.job = id
	m.processes = append(m.processes, p)
	p.thread.Do(p.main)
	m.world.notify(processSpawned{id})
	return p
}

func (m *machine) newProcess() *process {
	m.lastPid++
	l := &kernel.Lifetime{}
	return &process{machine: m, pid: m.lastPid, life: l, thread: kernel.NewThread(m.world.kernel, l), stdin: &pipe{}, stdout: &pipe{}}
}

// startClient starts the process of a client, which runs no job and has a lock file of this name.
func (m *machine) startClient(name string) *process {
	p := m.newProcess()
	p.launched = true
	p.livelock = fmt.Sprintf("%s%s_%d", m.livelockDir(), name, p.pid)
	m.livelocks[p.livelock] = p
	return p
}

func (m *machine) find(pid int64) *process {
	for _, p := range m.processes {
		if int64(p.pid) == pid {
			return p
		}
	}
	return nil
}

// ofJob is the youngest process of a job; nil: it has none.
func (m *machine) ofJob(id int64) *process {
	for _, p := range slices.Backward(m.processes) {
		if p.job == id {
			return p
		}
	}
	return nil
}

// neverBegan reports whether it is proven that the dead process of a lock file has not begun its job. Of Ganeti's process, a
// queued job is the proof, in the boot of the note.
func (m *machine) neverBegan(livelock string) bool {
	if m.world.mutations.NoMarks {
		return false
	}
	if id, ok := paths.JobIDOfLivelock(livelock); ok && m.bootNotes[id] == livelock {
		f := m.node.disk.Find(paths.JobPath(id))
		return f != nil && isWhollyQueued(jobIn(f).job)
	}
	p, left := m.livelocks[livelock]
	if !left {
		return m.world.mutations.MissingIsProof || m.world.mutations.StaleMark && m.formerBoots[livelock]
	}
	return p != nil && p.life.Over && !p.begun && !p.ganetis
}

func isWhollyQueued(j *job.Job) bool {
	return j != nil && !slices.ContainsFunc(j.Ops, func(op job.Op) bool { return op.Status != job.Queued })
}

// cleanUp kills the orphans of a job whose process is dead, removes its lock file, and then calls
// then. The kill may take a while. seen says that the daemon saw the process end. A lock file with the mark that its process has not begun
// the job stays.
func (m *machine) cleanUp(livelock string, seen bool, l *kernel.Lifetime, then func(neverBegan bool)) {
	neverBegan := m.neverBegan(livelock)
	if p := m.livelocks[livelock]; p != nil && p.ganetis && neverBegan {
		delete(m.livelocks, livelock)
	}
	if _, left := m.livelocks[livelock]; !left || neverBegan {
		then(neverBegan) // the process has no children
		return
	}
	clear := func() {
		m.endCommands(livelock, seen)
		delete(m.livelocks, livelock)
		then(false)
	}
	if !slices.ContainsFunc(m.commands, func(c *command) bool { return c.process.livelock == livelock }) {
		clear()
		return
	}
	m.world.clock.After(time.Duration(m.world.rng.IntN(500))*time.Millisecond, l, clear)
}

// endCommands kills the commands that are in the control groups of a job, carry its marker or belong to its session.
func (m *machine) endCommands(livelock string, seen bool) {
	for _, c := range slices.Clone(m.commands) {
		if c.process.livelock == livelock && c.isFound(seen) {
			c.end("killed with what was left of its job")
		}
	}
}

// isFound reports whether a search for what is left of a job finds the command. seen says that the searching process saw the end of the job
// process.
func (c *command) isFound(seen bool) bool {
	w := c.process.machine.world
	switch {
	case w.options.Groups && (seen || !w.mutations.ForgottenGroups):
		return true
	case c.script.hides == hidesBoth:
		return false
	default:
		return seen || !w.mutations.MarkerOnly || c.script.hides != hidesEnvironment
	}
}

// boot identifies the machine's current boot.
func (m *machine) boot() string { return fmt.Sprintf("boot-%d", m.boots) }

// losePower ends all processes, commands and sessions of the machine at once. Its livelocks are free after the next boot.
func (m *machine) losePower() {
	m.boots++
	for _, p := range m.processes {
		p.life.Over = true
		if p.shell != nil {
			p.shell.relay.hangUp()
		}
	}
	for _, c := range m.commands {
		c.life.Over = true
	}
	m.processes, m.commands = nil, nil
	for livelock := range m.livelocks {
		m.formerBoots[livelock] = true
	}
	clear(m.livelocks)
	clear(m.bootNotes)
	clear(m.priorities)
	for _, s := range slices.Clone(m.sessions) {
		s.process.life.Over = true
		s.ended()
	}
	for _, p := range slices.Clone(m.world.programs) {
		if p.process.machine == m {
			p.losePower()
		}
	}
}

// occupying lists the jobs, by id, that certainly have a run slot: a process or its orphans work
// on them. A process that waits for permission to begin its next opcode may have no slot.
func (m *machine) occupying() []int64 {
	return m.jobsOf(func(p *process) bool { return p.permitted && !p.awaitsPermission })
}

// occupying lists the jobs of the deciding node. It may have more from an earlier mastership,
// whose jobs have ended for all other nodes.
func (w *World) occupying() []int64 {
	if w.decider == nil {
		return nil
	}
	ids := w.decider.machine.occupying()
	if w.oracle == nil {
		return ids
	}
	return slices.DeleteFunc(ids, func(id int64) bool {
		j := w.Job(id)
		return j == nil || j.Status().Final()
	})
}

// onDecider reports whether the process is on the deciding node.
func (p *process) onDecider() bool { return p.machine.node == p.machine.world.decider }

func (m *machine) jobsOf(which func(*process) bool) []int64 {
	var ids []int64
	for _, p := range m.processes {
		if which(p) {
			ids = append(ids, p.job)
		}
	}
	for _, c := range m.commands {
		ids = append(ids, c.process.job)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
