package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"lockstep/actors/jobs"
	"lockstep/core/job"
	"lockstep/core/ownership"
	"lockstep/core/paths"
	"lockstep/edge/pidfd"
	"lockstep/messages"
	"lockstep/persistence"
)

// exitGrace is how long a job process may take to end its command, with SIGTERM
// and then SIGKILL, and to record that, before everything of the job is killed.
const exitGrace = 20 * time.Second

// liveProcess is a confirmed process whose end was not observed. process is nil if its pid is
// not known.
type liveProcess struct {
	job      jobs.Job
	process  *pidfd.Process
	pid      int
	livelock string
	ended    chan struct{} // closed when the process has ended
	held     heldOrders
	cancel   sync.Mutex  // held while a cancel is carried out
	canceled atomic.Bool // it was ended by a cancel, and executed no opcode
}

// heldOrders are the orders to a process that cannot take signals yet. It takes them when takesSignals has been true once.
type heldOrders struct {
	mu     sync.Mutex
	takes  bool
	orders []jobs.Order
}

// hold keeps an order if the process does not take it yet, and reports whether it has kept it. SIGKILL is never held.
func (h *heldOrders) hold(order jobs.Order, takesSignals func() bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takes = h.takes || takesSignals(); h.takes || order.Kind == jobs.EndNow {
		return false
	}
	h.orders = append(h.orders, order)
	return true
}

// release returns the held orders if the process takes signals now, and forgets them. From then on no order is held.
func (h *heldOrders) release(takesSignals func() bool) []jobs.Order {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.takes = h.takes || takesSignals(); !h.takes {
		return nil
	}
	orders := h.orders
	h.orders = nil
	return orders
}

// takesSignals reports whether the process of a job has its signal handlers. Ganeti's process installs them after the
// handshake, and before that a signal kills it. It then makes the first opcode waiting in the job's file. A file that cannot
// be read counts as written: its job ends without a daemon's order.
func (p *Processes) takesSignals(started jobs.Job) bool {
	if started.Program != messages.JobProgram_GANETI_JOB {
		return true
	}
	content, err := os.ReadFile(filepath.Join(p.config.DataDir, paths.JobPath(started.ID)))
	if err != nil {
		return true
	}
	j, err := job.Decode(content)
	return err != nil || j.Status() != job.Queued || !j.Start.IsZero()
}

// releaseOrders delivers the orders that were held for a process, once it takes signals.
func (p *Processes) releaseOrders(attempt uint64) {
	p.mu.Lock()
	l := p.live[attempt]
	p.mu.Unlock()
	if l == nil {
		return
	}
	for _, order := range l.held.release(func() bool { return p.takesSignals(l.job) }) {
		p.deliver(l, order)
	}
}

func (p *Processes) addLive(attempt uint64, l *liveProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[attempt] = l
}

func (p *Processes) removeLive(attempt uint64) {
	p.fileWatch.remove(attempt)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.live[attempt]; l != nil {
		// Closed before the priority file is removed: a delivery that writes the file later sees the end, and removes the file itself.
		close(l.ended)
		delete(p.live, attempt)
		p.removePriorityMessage(l.job.ID)
	}
}

// removePriorityMessage removes the priority file of a process that has ended.
func (p *Processes) removePriorityMessage(id int64) {
	_ = os.Remove(persistence.PriorityPath(p.config.RunDir, id))
}

// removeProgressPipe removes the pipe of a process that was killed, maybe while no daemon ran. Nobody reads it any more.
func (p *Processes) removeProgressPipe(id int64) {
	_ = persistence.RemoveProgress(persistence.ProgressPath(p.config.RunDir, id))
	_ = persistence.RemoveProgress(persistence.UserProgressPath(p.config.RunDir, id))
}

// Tell passes a client's order to a running job process, by Ganeti's signals: SIGTERM to cancel, SIGUSR1 for a priority in a file
// (queue.md 4.6). SIGINT, to end what runs, is lockstep's own.
func (p *Processes) Tell(attempt uint64, order jobs.Order) {
	p.mu.Lock()
	l := p.live[attempt]
	p.mu.Unlock()
	switch {
	case l == nil:
	case order.Kind == jobs.StopBeforeNext && l.job.Program == messages.JobProgram_GANETI_JOB:
		go p.cancelGaneti(l)
	case !l.held.hold(order, func() bool { return p.takesSignals(l.job) }):
		p.deliver(l, order)
	}
}

// deliver signals a process, which may have ended since it was looked up. A priority is in a file before the signal. A command that
// EndNow does not end is killed after a grace period.
func (p *Processes) deliver(l *liveProcess, order jobs.Order) {
	switch order.Kind {
	case jobs.StopBeforeNext:
		l.signal(syscall.SIGTERM)
	case jobs.TakePriority:
		if err := writePriority(p.config.RunDir, p.config.Owners, l.job.ID, order.Priority); err != nil {
			p.config.Log.WithFields(logrus.Fields{"job": l.job.ID, "err": err}).Error("delivery of a priority to a job process failed")
			return
		}
		// When the file is in place: the process reads it at the signal.
		l.signal(syscall.SIGUSR1)
		select {
		case <-l.ended: // the file may have been written after its removal
			p.removePriorityMessage(l.job.ID)
		default:
		}
	case jobs.EndNow:
		if l.job.Program == messages.JobProgram_GANETI_JOB {
			l.signal(syscall.SIGKILL) // as luxid does; Ganeti's process has no orderly end of a running opcode
			return
		}
		l.signal(syscall.SIGINT)
		go p.killAfterGrace(l)
	}
}

// killAfterGrace kills a job process that does not end within exitGrace after the order.
func (p *Processes) killAfterGrace(l *liveProcess) {
	select {
	case <-l.ended:
	case <-time.After(exitGrace):
		p.config.Log.WithField("job", l.job.ID).Warn("job process did not end in time; killing all processes of the job")
		l.signal(syscall.SIGKILL)
		p.runReaper(l.livelock, session{})
	}
}

// signal signals the confirmed process, if it has not ended.
func (l *liveProcess) signal(s syscall.Signal) {
	if l.process != nil {
		_ = l.process.Signal(s) // the process may have ended
	}
}

// writePriority replaces the priority file atomically, so that the process never reads a part
// of it. The file need not survive a power loss, because the process does not.
func writePriority(runDir string, owners ownership.Rules, id int64, priority int) error {
	path := persistence.PriorityPath(runDir, id)
	content := []byte(strconv.Itoa(priority) + "\n")
	err := persistence.ReplaceMessage(path, content, owners)
	if errors.Is(err, fs.ErrNotExist) && persistence.MakeRunDirs(runDir, owners) == nil {
		err = persistence.ReplaceMessage(path, content, owners)
	}
	return err
}
