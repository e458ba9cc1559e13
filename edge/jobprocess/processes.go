// Package jobprocess starts, watches and ends job processes: lockstep-job, and in Ganeti mode also Ganeti's. It implements the port
// jobs.Processes with real processes.
//
// It owns the running child processes of this daemon and the pidfd of each. An attempt
// is one start of a job's process: spawn, handshake, permission to act. A job actor may ask
// it to start or adopt a process, to confirm or abandon an attempt, and to pass on a client
// order. It answers with messages to that actor: ProcessNamed, ProcessConfirmed,
// HandshakeFailed, ProcessGone. It kills the orphans of a job before it reports the end of
// the job's process.
//
// All of its state is in memory. Job processes survive a crash of the daemon, and the next
// daemon adopts them by pid and livelock.
package jobprocess

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"

	"lockstep/actors/jobs"
	"lockstep/core/handshake"
	"lockstep/core/jobproc"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/forkserver"
	"lockstep/messages"
	"lockstep/persistence"
)

const (
	// messageTimeout is how long each message of the handshake may take
	// (queue.md 4.5).
	messageTimeout = 30 * time.Second
	// killInterval is the pause between the signals to a process whose start has failed.
	killInterval = 100 * time.Millisecond
	// permissionTimeout is how long a process that has named its livelock may wait for its
	// permission. The disk may be slow, but the wait must end if the actor has ended.
	permissionTimeout = 10 * time.Minute
	// execTimeout is how long a process may take from fork to exec.
	execTimeout = time.Second
	// nameFrameMax bounds what a child may send, in bytes.
	nameFrameMax = 4096
)

// Config has the program and the directories of job processes. All paths are absolute.
type Config struct {
	System  *actor.ActorSystem
	Log     *logrus.Logger
	Program string // lockstep-job
	DataDir string
	RunDir  string
	Stderr  *os.File // standard error of job processes
	// Permission is sent to processes as their permission to start: jobproc.LeaseRequired or
	// jobproc.LeaseNotRequired.
	Permission string
	Owners     ownership.Rules // of messages to job processes and their directories
	Cgroup     string          // control group of job processes, a directory; "": that of the daemon
	Ganeti     *Ganeti         // Ganeti mode; nil: all jobs are lockstep-job's
	// Collects says that the garbage of the daemon is collected while no process is being started, see collector.
	Collects bool
}

// Processes is the port jobs.Processes on a real machine: it starts, adopts and watches job processes. Its methods do not block. Each
// attempt has one goroutine. After the handshake it waits in the runtime's poller, without a thread, for the end of the process.
type Processes struct {
	config Config
	env    []string // environment of job processes
	cgroup cgroup
	// collector is nil without Config.Collects.
	collector *collector

	mu            sync.Mutex
	pendingStarts map[uint64]*pendingStart // by attempt: handshake in progress
	live          map[uint64]*liveProcess  // by attempt: confirmed and not ended

	fileWatch  *fileWatch         // of the jobs of Ganeti's processes; nil without such processes
	forkServer *forkserver.Server // nil: all processes are executed
}

// pendingStart is an attempt whose handshake is in progress.
type pendingStart struct {
	confirm chan []byte   // at most one
	abandon chan struct{} // closed to abandon the attempt
	once    sync.Once
}

// New returns a Processes that has started and adopted none.
func New(c Config) *Processes {
	p := &Processes{
		config:        c,
		env:           Environment(),
		cgroup:        cgroup{path: c.Cgroup, log: c.Log},
		pendingStarts: map[uint64]*pendingStart{},
		live:          map[uint64]*liveProcess{},
	}
	if c.Collects {
		p.collector = newCollector()
	}
	if c.Ganeti != nil {
		p.fileWatch = newFileWatch(filepath.Join(c.DataDir, paths.QueueDir), c.Log)
		p.forkServer = p.newForkServer()
	}
	return p
}

// Close ends the watch of job files and the fork server. Job processes go on.
func (p *Processes) Close() {
	p.forkServer.Close()
	p.fileWatch.close()
	p.collector.close()
}

// Environment returns the environment of job processes: the daemon's, with GOMAXPROCS=1. A job
// process does one thing at a time; threads for more processors would lengthen its start by a
// quarter. Commands do not inherit the variable.
func Environment() []string {
	const threads = "GOMAXPROCS"
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == threads || name == jobproc.StartEnvName || name == jobproc.CgroupEnvName
	})
	return append(env, threads+"=1")
}

// Start spawns the process of a job and goes through the handshake with it.
func (p *Processes) Start(attempt uint64, job jobs.Job, jobActor *actor.PID) {
	a := &pendingStart{confirm: make(chan []byte, 1), abandon: make(chan struct{})}
	p.mu.Lock()
	p.pendingStarts[attempt] = a
	p.mu.Unlock()
	go p.runAttempt(a, attempt, job, jobActor)
}

// Confirm permits the process to act, by its launch specs, which it reads from its start pipe. It is called once the file of the job
// names the process durably.
func (p *Processes) Confirm(attempt uint64, launchSpecs []byte) {
	if a := p.pendingStart(attempt); a != nil {
		select {
		case a.confirm <- launchSpecs:
		default: // a repeated confirmation
		}
	}
}

// Abandon ends an attempt that was not confirmed: its process may not act, and ends.
func (p *Processes) Abandon(attempt uint64) {
	if a := p.pendingStart(attempt); a != nil {
		a.once.Do(func() { close(a.abandon) })
	}
}

func (p *Processes) pendingStart(attempt uint64) *pendingStart {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pendingStarts[attempt]
}

func (p *Processes) notify(receiver *actor.PID, message any) {
	p.config.System.Root.Send(receiver, message)
}

func (p *Processes) runAttempt(a *pendingStart, attempt uint64, job jobs.Job, jobActor *actor.PID) {
	child, err := p.spawn(job)
	if err != nil {
		p.endUnspawned(attempt, jobActor, err)
		return
	}
	livelock, failure := p.handshake(a, child, attempt, job, jobActor)
	if livelock == "" && child.forked != nil && child.hasEnded(failure) {
		if child, err = p.executeInstead(child, job); err != nil {
			p.endUnspawned(attempt, jobActor, err)
			return
		}
		livelock, failure = p.handshake(a, child, attempt, job, jobActor)
	}
	// The handshake has its result: from here on Confirm and Abandon have no effect.
	p.removePending(attempt)
	// A child without permission takes this as a refusal; one that has its permission does not need the pipes.
	child.closePipes()
	l := &liveProcess{job: job, process: child.process, pid: child.pid, livelock: livelock, ended: make(chan struct{})}
	if failure != nil {
		// Reported at once, because the end of the process may take a while.
		p.notify(jobActor, &messages.HandshakeFailed{Attempt: attempt, Text: failure.Error()})
		p.fileWatch.remove(attempt)
		child.terminate()
	} else {
		// Before the actor hears of it: the orders that it then sends must find the process.
		p.addLive(attempt, l)
		p.notify(jobActor, &messages.ProcessConfirmed{Attempt: attempt})
	}
	child.process.AwaitEnd()
	p.removeLive(attempt)
	// Orphans are killed before ProcessGone: with it the job's locks are freed, or the job is started again.
	exit, neverBegan, used := p.cleanUpAndReap(job, child, livelock)
	if livelock == "" {
		p.makeRunDirs()
	}
	// A failed handshake fails before the process has all of the last message, and without
	// that the process does not act.
	p.notify(jobActor, &messages.ProcessGone{
		Attempt:    attempt,
		Text:       exit,
		NeverActed: failure != nil || neverBegan,
		Canceled:   l.canceled.Load(),
		Usage:      used.encoded,
		UsageOp:    int32(used.op),
	})
}

// endUnspawned ends an attempt for which there is no process, and tells the job's actor.
func (p *Processes) endUnspawned(attempt uint64, jobActor *actor.PID, err error) {
	p.removePending(attempt)
	p.notify(jobActor, &messages.HandshakeFailed{Attempt: attempt, Text: err.Error()})
	p.notify(jobActor, &messages.ProcessGone{Attempt: attempt, Text: err.Error(), NeverSpawned: true})
}

// makeRunDirs creates the directories that job processes need, in case the run directory was
// cleaned up.
func (p *Processes) makeRunDirs() {
	if err := persistence.MakeRunDirs(p.config.RunDir, p.config.Owners); err != nil {
		p.config.Log.WithField("err", err).Error("creation of the directories of job processes failed")
	}
}

// cleanUpAndReap kills the orphans of an ended process, reaps it, and returns how it ended.
// A process that ends in order removes its lock file last, and leaves no orphans.
func (p *Processes) cleanUpAndReap(job jobs.Job, c *child, livelock string) (exit string, neverBegan bool, used usage) {
	if _, err := os.Lstat(livelock); livelock == "" || errors.Is(err, fs.ErrNotExist) {
		exit = c.reap()
		if exit != handshake.CleanExit {
			neverBegan, used = p.cleanUp(job, livelock, session{leader: c.leader})
			return exit, neverBegan, used
		}
		return exit, p.takeProof(job, livelock), usage{}
	}
	// A command between fork and exec has no mark of its job yet, but holds the inherited
	// lock until the exec.
	for deadline := time.Now().Add(execTimeout); isAlive(livelock) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	neverBegan, used = p.cleanUp(job, livelock, c.session())
	return c.reap(), neverBegan, used
}

func (p *Processes) removePending(attempt uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pendingStarts, attempt)
}

// handshake is the parent's side of the start handshake (queue.md 4.5). It tells the job's actor the process's name, and waits for the
// confirmation, for an abandonment, or for permissionTimeout. It returns the livelock's name, also with an error if the process has named
// it.
func (p *Processes) handshake(a *pendingStart, c *child, attempt uint64, job jobs.Job, jobActor *actor.PID) (livelock string, err error) {
	name, err := c.receive()
	if err != nil {
		return "", fmt.Errorf("the process did not name its lock file, jobs.log may say why: %w", err)
	}
	livelock = string(name)
	p.noteBoot(job, livelock)
	// The process waits from here on, until the actor has made its name durable.
	p.notify(jobActor, &messages.ProcessNamed{Attempt: attempt, Pid: int64(c.pid), Livelock: livelock})
	var launchSpecs []byte
	select {
	case launchSpecs = <-a.confirm:
	case <-time.After(permissionTimeout):
		return livelock, errors.New("the process got no permission to start in time")
	case <-a.abandon:
		// A confirmation that came before the abandonment counts.
		select {
		case launchSpecs = <-a.confirm:
		default:
			return livelock, fmt.Errorf("the start was called off")
		}
	}
	permission := p.config.Permission
	if job.Program == messages.JobProgram_GANETI_JOB {
		permission = "" // it takes any other answer for a refusal
		// The watch begins before the permission, so that no write of the process is missed.
		p.watchFile(attempt, job, livelock, jobActor)
	}
	// The permission alone lets the process do nothing: it answers, and acts when it has the launch specs. So a handshake that fails before
	// they are sent proves that it did not act.
	if err := c.send([]byte(permission)); err != nil {
		return livelock, fmt.Errorf("the process does not take its permission to start: %w", err)
	}
	if _, err := c.receive(); err != nil {
		return livelock, fmt.Errorf("the process did not take its permission to start: %w", err)
	}
	if err := c.send(launchSpecs); err != nil {
		return livelock, fmt.Errorf("cannot hand over to the process: %w", err)
	}
	return livelock, nil
}
