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
	refused map[string]bool // by tag
	ended   map[int64]reportedEnd
	garbled map[int64]bool // jobs whose files were changed or removed by hand
}

// reportedEnd is what the first client was told of a job's end, and at which step of the world.
type reportedEnd struct {
	status string
	step   uint64
}

func (*checkReported) Name() string { return "clients are told the truth" }

func (c *checkReported) See(w *World, event any) error {
	if c.refused == nil {
		c.refused, c.ended, c.garbled = map[string]bool{}, map[int64]reportedEnd{}, map[int64]bool{}
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
		return c.status(w, e)
	case cancelConfirmed:
		j := w.Job(e.id)
		if j == nil && c.garbled[e.id] {
			return nil // removed while the answer was on its way
		}
		if j == nil || !j.Status().Final() {
			return fmt.Errorf("client was told that the cancel of job %d has succeeded; its file does not say so", e.id)
		}
		return c.status(w, statusReported{id: e.id, status: j.Status().String(), asked: w.Steps()})
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
		c.garbled[e.id] = true
		delete(c.ended, e.id)
	}
	return nil
}

// status compares a report with an earlier one of the end. An answer to a question that was asked before a client was told of the end
// may be older than the end, for answers to different clients overtake each other; an answer that names another end may not.
func (c *checkReported) status(w *World, e statusReported) error {
	status, known := job.ParseStatus(e.status)
	isEnd := known && status.Final()
	before, ended := c.ended[e.id]
	switch {
	case ended && before.status != e.status && (isEnd || e.asked > before.step):
		return fmt.Errorf("job %d is said to be %s; it was said to have ended with %s", e.id, e.status, before.status)
	case isEnd && !ended:
		c.ended[e.id] = reportedEnd{e.status, w.Steps()}
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
		if reported, ended := c.ended[id]; ended && reported.status != j.Status().String() {
			return fmt.Errorf("job %d was said to have ended with %s, and is %s", id, reported.status, j.Status())
		}
	}
	return nil
}

// allOrNone checks that each submission has all of its jobs, or none.
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
