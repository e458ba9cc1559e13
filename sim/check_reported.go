package sim

import (
	"fmt"
	"strings"

	"lockstep/core/job"
)

// checkReported: what clients were told stays true. A refused submission never has a job. An
// interrupted one has all of its jobs or none. A job that was reported as ended has ended so,
// also after a power loss.
type checkReported struct {
	refused map[string]bool  // by tag
	ended   map[int64]string // reported status
}

func (*checkReported) Name() string { return "clients are told the truth" }

func (c *checkReported) See(w *World, event any) error {
	if c.refused == nil {
		c.refused, c.ended = map[string]bool{}, map[int64]string{}
	}
	switch e := event.(type) {
	case submissionAnswered:
		if e.submission.outcome() == refused {
			for i := range e.submission.jobs {
				c.refused[e.submission.tag(i)] = true
			}
			return c.compare(w)
		}
	case statusReported:
		return c.status(e)
	case cancelConfirmed:
		j := w.Job(e.id)
		if j == nil || !j.Status().Final() {
			return fmt.Errorf("client was told that the cancel of job %d has succeeded; its file does not say so", e.id)
		}
		return c.status(statusReported{id: e.id, status: j.Status().String()})
	case opcodeStarted:
		if c.refused[e.tag] {
			return fmt.Errorf("%s was refused, and runs as job %d", e.tag, e.job)
		}
	case powerLost, daemonStarted:
		return c.compare(w)
	case finished:
		if err := c.compare(w); err != nil {
			return err
		}
		return allOrNone(w)
	case garbled:
		delete(c.ended, e.id)
	}
	return nil
}

func (c *checkReported) status(e statusReported) error {
	if before, ended := c.ended[e.id]; ended && before != e.status {
		return fmt.Errorf("job %d is said to be %s; it was said to have ended with %s", e.id, e.status, before)
	}
	if status, known := job.ParseStatus(e.status); known && status.Final() {
		c.ended[e.id] = e.status
	}
	return nil
}

// compare compares the reports with the disk. A job above the serial does not count: the next
// start quarantines it first.
func (c *checkReported) compare(w *World) error {
	for id := int64(1); id <= w.serial(); id++ {
		j := w.Job(id)
		if j == nil {
			continue
		}
		if tag := w.tagOf(id); c.refused[tag] {
			return fmt.Errorf("%s was refused, and is job %d", tag, id)
		}
		if reported, ended := c.ended[id]; ended && reported != j.Status().String() {
			return fmt.Errorf("job %d was said to have ended with %s, and is %s", id, reported, j.Status())
		}
	}
	return nil
}

// allOrNone checks that a submission has all of its jobs, or none.
func allOrNone(w *World) error {
	found := map[string]bool{}
	for id := int64(1); id <= w.serial(); id++ {
		if w.Job(id) != nil {
			found[w.tagOf(id)] = true
		}
	}
	for _, s := range w.submissions {
		count := 0
		for i := range s.jobs {
			if found[s.tag(i)] {
				count++
			}
		}
		if count != 0 && count != len(s.jobs) && !w.garbled && !s.partlyRolledBack() {
			return fmt.Errorf("client %d submission %d: %d of its %d jobs are there", s.client.number, s.number, count, len(s.jobs))
		}
	}
	return nil
}

// partlyRolledBack reports whether the disk has refused the submission and then its rollback, so
// that the client was told to look.
func (s *submission) partlyRolledBack() bool {
	return s.err != nil && strings.Contains(s.err.Error(), "taken back")
}
