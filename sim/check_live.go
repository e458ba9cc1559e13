package sim

import (
	"errors"
	"fmt"
)

// checkLive: after the faults have stopped everything ends. Every job is final, no process is
// left, no client waits for an answer, and the daemon lists each job as the disk has it.
type checkLive struct{}

func (checkLive) Name() string { return "everything ends" }

func (checkLive) See(w *World, event any) error {
	if _, is := event.(finished); !is {
		return nil
	}
	if err := w.unfinished(); err != nil {
		return err
	}
	known := map[int64]string{}
	for _, row := range w.finalListing {
		known[row.ID] = row.Status
	}
	for _, id := range w.recordedIDs() {
		j := w.Job(id)
		if j != nil && known[id] != j.Status().String() {
			return fmt.Errorf("job %d is %s, the daemon says %q", id, j.Status(), known[id])
		}
		delete(known, id)
	}
	if len(known) > 0 {
		return fmt.Errorf("the daemon knows of jobs that are not on the disk: %v", known)
	}
	return nil
}

// unfinished returns an error that names what has not ended yet; nil if everything has.
func (w *World) unfinished() error {
	if w.master() == nil {
		return errors.New("there is no daemon")
	}
	for _, id := range w.recordedIDs() {
		if j := w.Job(id); j != nil && !j.Status().Final() {
			return fmt.Errorf("job %d is %s", id, jobText(j, nil))
		}
	}
	for _, n := range w.nodes {
		for _, p := range n.machine.processes {
			return fmt.Errorf("process %d of job %d lives", p.pid, p.job)
		}
		for _, c := range n.machine.commands {
			return fmt.Errorf("a command of job %d lives", c.process.job)
		}
		if err := n.caughtUp(); err != nil {
			return err
		}
	}
	for _, c := range w.clients {
		if c.rpc.done != nil || c.rpc.retrying {
			return fmt.Errorf("client %d waits for an answer", c.number)
		}
	}
	return nil
}
