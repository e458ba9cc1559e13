// Package ownerwatch watches the processes that own locks. It implements the interface
// locks.Owners. It detects the death of an owner by its pidfd and its livelock, a file that the
// owner keeps locked while it lives, and reports it. It wakes an owner by SIGHUP.
//
// It owns the watches and their pidfds. The lock manager may ask it to watch, forget, wake or
// probe an owner, and to remove the livelock of a dead one. Nothing survives a crash: after a
// restart the lock manager asks for every watch again.
package ownerwatch

import (
	"os"
	"sync"
	"syscall"
	"time"

	"lockstep/edge/pidfd"
)

const (
	// probeInterval is the pause between probes of a livelock whose process is not known,
	// or has ended without the livelock.
	probeInterval = time.Second
	// watchedProbeEvery is the number of intervals between probes of a livelock whose
	// process is watched: the process may release its livelock and live on.
	watchedProbeEvery = 10
	// pidsMax bounds the processes of a livelock: each costs a descriptor, and clients
	// name any number of pids.
	pidsMax = 16
)

// Owners reports when a process that holds locks has ended: it watches the process's livelock. The key of a livelock is the path that the
// client gave; its file is the one of that base name in one directory, whatever the rest of the path. Methods do not block. Callbacks run
// on other goroutines, concurrently.
type Owners struct {
	dir      string
	ownBase  string // base name, "" if there is none
	onDeath  func(livelock string)
	interval time.Duration // probeInterval, except in tests

	closing   chan struct{}
	callbacks sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	watches map[string]*watch
	ticking bool // the goroutine of the ticker runs
}

// watch is a watched livelock, until it is dead or forgotten. The mutex of Owners guards its
// fields except ended.
type watch struct {
	livelock string
	// processes has the pids that were given for it. nil: that process has ended, or could
	// not be opened. The pid stays in the map, because the next process with the same pid is
	// not an owner.
	processes     map[int]*pidfd.Process
	openProcesses int           // number of processes that are not nil
	ended         chan struct{} // closed at the end of the watch
}

// New returns an Owners that watches no livelock yet. livelockDir is the directory of the livelocks. own is the daemon's livelock, which
// always counts as alive. onDeath is called for each watched livelock that is dead.
func New(livelockDir, own string, onDeath func(livelock string)) *Owners {
	return &Owners{dir: livelockDir, ownBase: baseName(own), onDeath: onDeath, interval: probeInterval,
		closing: make(chan struct{}), watches: map[string]*watch{}}
}

// Close ends all watches. When it returns, no callback runs, and none will run. A callback
// must not call it.
func (o *Owners) Close() {
	o.mu.Lock()
	if !o.closed {
		o.closed = true
		close(o.closing)
		for _, w := range o.watches {
			o.endWatch(w)
		}
	}
	o.mu.Unlock()
	o.callbacks.Wait()
}

// Watch calls onDeath once when no process holds the livelock, at once if none does now. That
// ends the watch. A second Watch of a livelock only adds its pid. pid is 0 if it is not known.
func (o *Owners) Watch(livelock string, pid int) {
	if o.isOwn(livelock) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	w := o.watches[livelock]
	isNew := w == nil
	if isNew {
		w = &watch{livelock: livelock, processes: map[int]*pidfd.Process{}, ended: make(chan struct{})}
		o.watches[livelock] = w
		o.startTicker()
	}
	// The pidfd is opened before the livelock is probed: if the livelock is held then, the
	// pid was not reused before.
	process := w.addProcess(pid)
	if isNew || process != nil {
		o.spawnCallback(func() { o.probeAtEnd(w, pid, process) })
	}
}

// addProcess opens a process whose pid is given for the first time; nil: the pid is known, or
// cannot be opened.
func (w *watch) addProcess(pid int) *pidfd.Process {
	if _, known := w.processes[pid]; known || pid <= 0 || len(w.processes) >= pidsMax {
		return nil
	}
	process, err := pidfd.Open(pid)
	if err != nil {
		// The process has ended, or no descriptor is left. The ticker still probes the livelock.
		w.processes[pid] = nil
		return nil
	}
	w.processes[pid] = process
	w.openProcesses++
	return process
}

// probeAtEnd probes the livelock now, and again when the process has ended.
func (o *Owners) probeAtEnd(w *watch, pid int, process *pidfd.Process) {
	if o.probeWatch(w) || process == nil || !process.AwaitEnd() {
		return
	}
	o.mu.Lock()
	if w.processes[pid] == process {
		w.closeProcess(pid)
	}
	o.mu.Unlock()
	// A child of the process holds the inherited lock between fork and exec. So the livelock is
	// probed again for a short time, and then by the ticker.
	for pause := time.Millisecond; pause < o.interval && !o.probeWatch(w); pause *= 2 {
		select {
		case <-w.ended:
			return
		case <-time.After(pause):
		}
	}
}

// closeProcess closes the pidfd of a pid. The pid stays in the map.
func (w *watch) closeProcess(pid int) {
	if process := w.processes[pid]; process != nil {
		_ = process.Close()
		w.processes[pid] = nil
		w.openProcesses--
	}
}

// probeWatch probes a livelock, and reports whether it is dead. If it is, the watch ends, and onDeath is called unless the watch has
// ended before.
func (o *Owners) probeWatch(w *watch) (dead bool) {
	if o.isHeld(w.livelock) {
		return false
	}
	o.mu.Lock()
	current := o.watches[w.livelock] == w
	if current {
		o.endWatch(w)
	}
	o.mu.Unlock()
	if current {
		o.onDeath(w.livelock)
	}
	return true
}

// endWatch ends a watch and closes its processes. The caller holds the mutex and knows that it has not ended.
func (o *Owners) endWatch(w *watch) {
	delete(o.watches, w.livelock)
	for pid := range w.processes {
		w.closeProcess(pid)
	}
	close(w.ended)
}

// Forget ends the watch of a livelock, if there is one: its death is not reported.
func (o *Owners) Forget(livelock string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.watches[livelock]; w != nil {
		o.endWatch(w)
	}
}

// Wake sends SIGHUP to the process that had the pid when Watch was first called for livelock
// and pid, if the livelock is held. It never signals this process.
func (o *Owners) Wake(livelock string, pid int) {
	if pid == os.Getpid() {
		return
	}
	o.mu.Lock()
	w := o.watches[livelock]
	var process *pidfd.Process
	if w != nil {
		process = w.processes[pid]
	}
	o.mu.Unlock()
	if process != nil && o.isHeld(livelock) {
		_ = process.Signal(syscall.SIGHUP) // the process may have ended
	}
}

// Probe probes livelocks now and answers with the dead ones, in the order given.
func (o *Owners) Probe(livelocks []string, answer func(dead []string)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	o.spawnCallback(func() {
		var dead []string
		for _, livelock := range livelocks {
			if !o.isHeld(livelock) {
				dead = append(dead, livelock)
			}
		}
		answer(dead)
	})
}

// spawnCallback starts f on a goroutine. The caller holds the mutex, and Close has not begun.
func (o *Owners) spawnCallback(f func()) { o.callbacks.Go(f) }

// startTicker starts the periodic probes, which go on while there are watches.
func (o *Owners) startTicker() {
	if !o.ticking {
		o.ticking = true
		o.spawnCallback(o.runTicker)
	}
}

func (o *Owners) runTicker() {
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	for n := 1; ; n++ {
		select {
		case <-o.closing:
			return
		case <-ticker.C:
		}
		due, more := o.due(n%watchedProbeEvery == 0)
		if !more {
			return
		}
		for _, w := range due {
			o.probeWatch(w)
		}
	}
}

// due returns the watches to probe now: all, or those without a process to await. more: there are watches. Without any it ends the
// ticker.
func (o *Owners) due(all bool) (due []*watch, more bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range o.watches {
		if all || w.openProcesses == 0 {
			due = append(due, w)
		}
	}
	o.ticking = len(o.watches) > 0
	return due, o.ticking
}
