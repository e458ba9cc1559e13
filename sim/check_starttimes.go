package sim

import (
	"fmt"
	"time"
)

// checkStartTimes: no job begins before its time, which clients have given it with its submission, or changed by an order that was
// acknowledged. While an order has no answer, either time is right.
type checkStartTimes struct {
	byTag   map[string]int64
	jobs    map[int64]*startTime
	garbled map[int64]bool
}

// startTime is what clients know of the time of a job.
type startTime struct {
	earliest int64 // microseconds since 1970; 0: at once
	open     int   // orders without an answer, which may be carried out late
	met      bool  // since there was no open order, two were open at a time: which of them came last is not known
	begun    bool
}

func (*checkStartTimes) Name() string { return "start times" }

func (c *checkStartTimes) See(w *World, event any) error {
	if c.jobs == nil {
		c.byTag, c.jobs, c.garbled = map[string]int64{}, map[int64]*startTime{}, map[int64]bool{}
	}
	switch e := event.(type) {
	case submissionSent:
		for i, at := range e.submission.at {
			if !at.IsZero() {
				c.byTag[e.submission.tag(i)] = at.UnixMicro()
			}
		}
	case timeSent:
		j := c.of(w, e.id)
		j.open++
		j.met = j.open > 1
		j.earliest = min(j.earliest, e.us)
	case timeAnswered:
		j := c.of(w, e.id)
		if e.err == nil { // an order without an answer may come late
			j.open--
		}
		if e.done && j.open == 0 && !j.met {
			j.earliest = e.us
		}
	case garbled:
		c.garbled[e.id] = true
	case opcodeStarted:
		j := c.of(w, e.job)
		now := w.clock.Now()
		if early := time.UnixMicro(j.earliest).Sub(now); early > 0 && !j.begun && !c.garbled[e.job] {
			return fmt.Errorf("job %d begins %v before its time, %v", e.job, early, time.UnixMicro(j.earliest).UTC())
		}
		j.begun = true
	}
	return nil
}

func (c *checkStartTimes) of(w *World, id int64) *startTime {
	if c.jobs[id] == nil {
		c.jobs[id] = &startTime{earliest: c.byTag[w.tagOf(id)]}
	}
	return c.jobs[id]
}
