// Package ownerwatch watches the processes that own locks. It implements the port
// locks.Owners: it reports the death of an owner, by pidfd and livelock, and wakes an owner
// by SIGHUP.
//
// It owns the watches and the pidfds behind them. The lock manager may ask it to watch,
// forget, wake, probe or remove a livelock. Nothing survives a crash: the lock manager
// asks for every watch again after a restart.
package ownerwatch

import (
	"os"
	"sync"
	"syscall"
	"time"

	"lockstep/edge/pidfd"
)

const (
	// probeInterval is how often a livelock is looked at whose process is not known, or
	// has ended without the livelock.
	probeInterval = time.Second
	// watchedProbeEvery is how many ticks pass between looks at one whose process is
	// watched: that may give its livelock up and live on.
	watchedProbeEvery = 10
	// pidsMax bounds the processes remembered for a livelock: each costs a
	// descriptor, and its number is what a client says.
	pidsMax = 16
)

// Owners watches livelocks. A livelock is known by the text that was given, and
// is the file of its base name in one directory, wherever the text leads. Methods
// do not wait for anything; callbacks come from other goroutines, several at once.
type Owners struct {
	dir      string
	ownBase  string // base name, "" if there is none
	onDeath  func(livelock string)
	interval time.Duration // tick, but in tests

	closing   chan struct{}
	callbacks sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	watches map[string]*watch
	ticking bool // a goroutine looks at them
}

// watch is one livelock until it is found dead or forgotten. Its fields are under
// the mutex of Owners, but for over.
type watch struct {
	livelock string
	// processes are the pids that were given for it. nil: that process has ended,
	// or could not be seen. It stays, for whoever comes to have the number next
	// is not the one who was meant.
	processes     map[int]*pidfd.Process
	openProcesses int           // how many of processes are there
	ended         chan struct{} // closed at the end of the watch
}

// New makes the port for the livelocks in a directory. own is the daemon's, which
// lives while anybody asks. tell is told of each watched livelock that is dead.
func New(livelockDir, own string, onDeath func(livelock string)) *Owners {
	return &Owners{dir: livelockDir, ownBase: baseName(own), onDeath: onDeath, interval: probeInterval,
		closing: make(chan struct{}), watches: map[string]*watch{}}
}

// Close ends all watches. When it returns no callback runs, and none will: a
// callback must not call it.
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

// Watch has tell called, once, when nobody holds the livelock any more; at once
// where that is so already. That ends the watch. To watch what is watched changes
// nothing, but another pid is remembered. pid is 0 where it is not known.
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
	// The process is held on to before the livelock is looked at: if that is
	// held then, the pid was not yet another's.
	process := w.addProcess(pid)
	if isNew || process != nil {
		o.spawnCallback(func() { o.probeAtEnd(w, pid, process) })
	}
}

// addProcess holds on to a process given for the first time; nil if it was not.
func (w *watch) addProcess(pid int) *pidfd.Process {
	if _, known := w.processes[pid]; known || pid <= 0 || len(w.processes) >= pidsMax {
		return nil
	}
	process, err := pidfd.Open(pid)
	if err != nil {
		// It is gone, or there is no descriptor left: the livelock is watched
		// all the same.
		w.processes[pid] = nil
		return nil
	}
	w.processes[pid] = process
	w.openProcesses++
	return process
}

// probeAtEnd looks at the livelock now, and when the process has ended.
func (o *Owners) probeAtEnd(w *watch, pid int, process *pidfd.Process) {
	if o.probeWatch(w) || process == nil || !process.AwaitEnd() {
		return
	}
	o.mu.Lock()
	if w.processes[pid] == process {
		w.closeProcess(pid)
	}
	o.mu.Unlock()
	// A child that it was just about to start holds the livelock until it is the
	// program that it is to be. Soon, or else the ticker sees it.
	for pause := time.Millisecond; pause < o.interval && !o.probeWatch(w); pause *= 2 {
		select {
		case <-w.ended:
			return
		case <-time.After(pause):
		}
	}
}

// closeProcess closes what is remembered of a pid, but for that it was given.
func (w *watch) closeProcess(pid int) {
	if process := w.processes[pid]; process != nil {
		_ = process.Close()
		w.processes[pid] = nil
		w.openProcesses--
	}
}

// probeWatch tells of the livelock if it is dead, and reports whether it is.
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

// endWatch ends a watch that is not over.
func (o *Owners) endWatch(w *watch) {
	delete(o.watches, w.livelock)
	for pid := range w.processes {
		w.closeProcess(pid)
	}
	close(w.ended)
}

// Forget ends a watch.
func (o *Owners) Forget(livelock string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.watches[livelock]; w != nil {
		o.endWatch(w)
	}
}

// Wake sends SIGHUP to the very process that was there when Watch was first
// called for the two, if somebody holds the livelock. This process is never
// signalled, whatever a client says.
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
		_ = process.Signal(syscall.SIGHUP) // if it has ended nobody is left to wake
	}
}

// Probe looks at livelocks now and answers which are dead, in the order given.
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

// spawnCallback needs the mutex: nothing begins once Close has begun.
func (o *Owners) spawnCallback(f func()) { o.callbacks.Go(f) }

// startTicker has the livelocks looked at from time to time, while there are any.
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

// due are the watches to look at now. Where there are none at all any more the
// ticker is taken off.
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
