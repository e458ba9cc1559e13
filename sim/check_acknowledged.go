package sim

import (
	"fmt"

	"lockstep/core/paths"
)

// checkAcknowledged: an acknowledged job is on the disk from then on. It would survive a power
// loss at the moment of the answer.
type checkAcknowledged struct {
	ids     []int64
	garbled map[int64]bool
}

func (*checkAcknowledged) Name() string { return "acknowledged jobs exist" }

func (c *checkAcknowledged) See(w *World, event any) error {
	switch e := event.(type) {
	case submissionAnswered:
		for _, id := range e.submission.ids {
			if c.garbled[id] { // its file was removed by hand while the answer was on its way
				continue
			}
			if err := wouldSurvive(w, id); err != nil {
				return err
			}
		}
		c.ids = append(c.ids, e.submission.ids...)
	case fileChanged:
		if e.job == nil {
			return c.allExist(w)
		}
	case powerLost, daemonStarted, finished:
		return c.allExist(w)
	case garbled:
		if c.garbled == nil {
			c.garbled = map[int64]bool{}
		}
		c.garbled[e.id] = true
	}
	return nil
}

// wouldSurvive: the job's file is durable in the queue, or in the archive: an answer may take longer than a rejected job stays in the
// queue. A move that is not durable yet leaves the file at one of the two places. The serial is durable too, because the next start
// quarantines a job above it.
func wouldSurvive(w *World, id int64) error {
	_, durable := w.disk.Surviving(paths.JobPath(id))
	if !durable && w.disk.Find(paths.ArchivePath(id)) != nil {
		_, was := w.disk.Durable(paths.JobPath(id))
		_, is := w.disk.Surviving(paths.ArchivePath(id))
		durable = was || is
	}
	if !durable {
		return fmt.Errorf("job %d was acknowledged, but power loss could take it away", id)
	}
	content, _ := w.disk.Surviving(paths.SerialPath)
	if serial, err := paths.ParseSerial(content); err != nil || serial < id {
		return fmt.Errorf("job %d was acknowledged, but power loss could leave the serial at %d", id, serial)
	}
	return nil
}

func (c *checkAcknowledged) allExist(w *World) error {
	for _, id := range c.ids {
		if !c.garbled[id] && w.Job(id) == nil {
			return fmt.Errorf("job %d was acknowledged, and is not on the disk", id)
		}
	}
	return nil
}
