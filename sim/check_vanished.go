package sim

import (
	"fmt"
	"time"
)

// checkVanished: a job process that does not find the directory of the queue ends, also between two opcodes, also without a daemon.
// It may wait for the end of the opcode that executes. A process that writes nothing and that a daemon answers need not notice.
type checkVanished struct {
	since map[*process]time.Time // when the process could first notice; the queue has been missing since then
}

// vanishedMax is the time after which such a process has ended: a minute until it looks, a minute of attempts to write, and half as much
// for pauses and the end of a call.
const vanishedMax = 150 * time.Second

func (*checkVanished) Name() string { return "processes without a queue" }

func (c *checkVanished) See(w *World, event any) error {
	if c.since == nil {
		c.since = map[*process]time.Time{}
	}
	switch e := event.(type) {
	case processEnded:
		delete(c.since, e.process)
	case powerLost:
		clear(c.since)
	case timePassed:
		for _, n := range w.nodes {
			if err := c.judge(w, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checkVanished) judge(w *World, n *node) error {
	now := w.clock.Now()
	for _, p := range n.machine.processes {
		if p.shell == nil || p.hung || !p.noticesLoss() {
			delete(c.since, p)
			continue
		}
		since, known := c.since[p]
		if !known {
			c.since[p] = now
			continue
		}
		if now.Sub(since) > vanishedMax {
			return fmt.Errorf("process %d of job %d lives, and has not found the directory of the queue for %v", p.pid, p.job, now.Sub(since))
		}
	}
	return nil
}

// noticesLoss reports whether the directory of the queue is missing for the process, no opcode executes, and it writes in vain or has no
// daemon.
func (p *process) noticesLoss() bool {
	n := p.machine.node
	missing := n.diskFull.op == queueMissing && n.world.clock.Now().Before(n.diskFull.until)
	return missing && p.shell.kill == nil && (n.daemon == nil || !p.shell.jobproc.AcceptsOutput())
}
