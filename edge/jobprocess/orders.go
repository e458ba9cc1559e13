package jobprocess

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"

	"lockstep/actors/jobs"
	"lockstep/edge/pidfd"
	"lockstep/persistence"
)

// exitGrace is how long a job process may take to end its command, with SIGTERM
// and then SIGKILL, and to record that, before everything of the job is killed.
const exitGrace = 20 * time.Second

// liveProcess is a confirmed process that has not been seen to end. process is nil
// where its number is not known.
type liveProcess struct {
	id       int64
	process  *pidfd.Process
	livelock string
	ended    chan struct{} // closed when it has ended
}

func (p *Processes) addLive(attempt uint64, l *liveProcess) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.live[attempt] = l
}

func (p *Processes) removeLive(attempt uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.live[attempt]; l != nil {
		close(l.ended)
		delete(p.live, attempt)
		p.removePriorityMessage(l.id)
	}
}

// removePriorityMessage removes the message to a process that has ended.
func (p *Processes) removePriorityMessage(id int64) {
	_ = os.Remove(persistence.PriorityPath(p.config.RunDir, id))
}

// Tell signals a process, by the conventions of Ganeti's job processes: SIGTERM
// to cancel, SIGUSR1 for a priority in a file (queue.md 4.6). SIGINT, to end
// what runs, is ours.
func (p *Processes) Tell(attempt uint64, order jobs.Order) {
	p.mu.Lock()
	l := p.live[attempt]
	p.mu.Unlock()
	if l != nil {
		p.deliver(l, order)
	}
}

// deliver passes an order to a process, which may have ended since it was looked up.
func (p *Processes) deliver(l *liveProcess, order jobs.Order) {
	switch order.Kind {
	case jobs.StopBeforeNext:
		l.signal(syscall.SIGTERM)
	case jobs.TakePriority:
		if err := writePriority(p.config.RunDir, l.id, order.Priority); err != nil {
			p.config.Log.WithFields(map[string]any{"job": l.id, "err": err}).Error("a job process cannot be told its priority")
			return
		}
		l.signal(syscall.SIGUSR1)
		select {
		case <-l.ended: // meanwhile: the message may have come after it was to be removed
			p.removePriorityMessage(l.id)
		default:
		}
	case jobs.EndNow:
		l.signal(syscall.SIGINT)
		go p.killAfterGrace(l)
	}
}

// killAfterGrace kills a job process that does not end although it was told to.
func (p *Processes) killAfterGrace(l *liveProcess) {
	select {
	case <-l.ended:
	case <-time.After(exitGrace):
		p.config.Log.WithField("job", l.id).Warn("a job process does not end; everything of the job is killed")
		l.signal(syscall.SIGKILL)
		p.runReaper(l.livelock, 0)
	}
}

// signal reaches the process that was confirmed, or nobody.
func (l *liveProcess) signal(s syscall.Signal) {
	if l.process != nil {
		_ = l.process.Signal(s) // if it has ended nobody is left to tell
	}
}

// writePriority replaces the message file, so that the process never reads half
// of it. It need not survive a power loss: nor does the process.
func writePriority(runDir string, id int64, priority int) error {
	path := persistence.PriorityPath(runDir, id)
	content := []byte(strconv.Itoa(priority) + "\n")
	err := persistence.ReplaceMessage(path, content)
	if errors.Is(err, fs.ErrNotExist) && persistence.MakeRunDirs(runDir) == nil {
		err = persistence.ReplaceMessage(path, content)
	}
	return err
}
