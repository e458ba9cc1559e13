package sim

import (
	"bytes"
	"fmt"
	"strings"

	"lockstep/core/job"
)

// checkBegun: no job fails because a process has died that has not begun it, or because a daemon has died. A process that was
// killed after it had begun may fail its job, and so may a loss of power, and starts that fail again and again. The same holds for a try of
// a job that is lost. It judges single nodes only: after a failover no file tells whether a process of the former master had begun.
type checkBegun struct {
	ended map[string]deadProcess // by lock file, since the last loss of power
	final map[int64]bool         // jobs whose last written file is final
	tries map[int64]deadProcess  // by job: of the process that has ended last
}

// deadProcess is how far a process had come when it ended, and how it ended.
type deadProcess struct {
	begun bool // it was about to act, or Ganeti's had written the job's file
	exit  string
}

func (*checkBegun) Name() string { return "a killed daemon ends no job" }

func (c *checkBegun) See(w *World, event any) error {
	if c.ended == nil {
		c.ended, c.final, c.tries = map[string]deadProcess{}, map[int64]bool{}, map[int64]deadProcess{}
	}
	switch e := event.(type) {
	case processEnded:
		p := e.process
		begun := p.shell != nil
		if p.ganetis {
			j := w.Job(p.job)
			begun = j == nil || j.Status() != job.Queued || j.Ops[0].Status != job.Queued
		}
		c.ended[p.livelock] = deadProcess{begun: begun, exit: p.exitText}
		c.tries[p.job] = c.ended[p.livelock]
	case processSpawned: // the end of the process before it says nothing of this one, which may hang after it has removed its lock file
		delete(c.tries, e.job)
	case powerLost:
		clear(c.tries)
		clear(c.ended)
		clear(c.final)
	case fileChanged:
		if p, known := c.tries[e.id]; known && !p.begun && w.oracle == nil && !w.garbled && e.op == "end-try" {
			return fmt.Errorf("a try of job %d counts as lost after a process that had not begun it", e.id)
		}
		err := c.changed(w, e)
		c.final[e.id] = e.job != nil && e.job.Status().Final()
		return err
	}
	return nil
}

func (c *checkBegun) changed(w *World, e fileChanged) error {
	if w.oracle != nil || w.garbled || c.final[e.id] || e.op != "end-job" || e.job == nil || e.job.Status() != job.Error {
		return nil
	}
	p, known := c.ended[e.job.Livelock]
	result := string(bytes.TrimSpace(e.job.Ops[len(e.job.Ops)-1].Result))
	switch {
	case !known, strings.Contains(result, "failed to start"): // judged by checkStarts
		return nil
	case !p.begun:
		return fmt.Errorf("job %d is failed after a process that had not begun it: %s", e.id, result)
	case !strings.HasPrefix(p.exit, "ended by") && p.exit != "exit status 5":
		return fmt.Errorf("job %d is failed, and its process ended with %s, killed by nobody: %s", e.id, p.exit, result)
	}
	return nil
}
