package why

import (
	"fmt"
	"strings"
	"time"

	"lockstep/core/answer"
)

// Schedules says how many schedules there are, and when one fires next: "3 schedules, 1 paused; nightly fires in 2h"; "" if there are none,
// or they are not known.
func (w Style) Schedules(s *answer.ScheduleSummary, now time.Time) string {
	if s == nil || s.Count() == 0 {
		return ""
	}
	parts := []string{fmt.Sprintf("%d schedules", s.Count())}
	if s.Count() == 1 {
		parts[0] = "1 schedule"
	}
	for _, some := range []struct {
		count int
		word  string
	}{{s.Paused, "paused"}, {s.Stopped, "stopped"}, {s.Broken, "broken"}} {
		if some.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", some.count, some.word))
		}
	}
	text := strings.Join(parts, ", ")
	switch in := s.Next.Sub(now); {
	case s.Next.IsZero():
		return text + "; none fires at a known time"
	case in < time.Second:
		return text + "; " + w.Clean(s.NextOf) + " fires now"
	default:
		return text + "; " + w.Clean(s.NextOf) + " fires in " + w.Span(in)
	}
}

// Trouble says why a schedule does not fire, or which due time it has missed, and why.
func (w Style) Trouble(t answer.ScheduleTrouble, now time.Time) string {
	if t.Missed.IsZero() {
		return t.State + ": " + w.Clean(t.Why)
	}
	return "missed " + w.Clock(now, t.Missed.Time) + ": " + w.Clean(t.Why)
}

// ScheduleReason is one reason why a schedule has not run, or when it will.
type ScheduleReason struct {
	Kind     string  `json:"kind"`
	Sentence string  `json:"sentence"`
	Jobs     []int64 `json:"jobs,omitempty"` // those that have not ended, of the kind overlap
}

// The kinds of reasons of a schedule, in their order.
const (
	ScheduleBroken  = "broken"  // its due times cannot be computed
	ScheduleStopped = "stopped" // its last due time is far ahead of the clock
	SchedulePaused  = "paused"
	ScheduleFailing = "failing" // its file cannot be written, or the node says nothing of its owner
	ScheduleDrained = "drained" // the queue refuses jobs
	ScheduleOverlap = "overlap" // jobs of former due times have not ended
	ScheduleLast    = "last"    // what became of the last due time
	ScheduleNext    = "next"    // when it fires next
)

// ScheduleReasons says why a schedule has not run, and when it fires next. s has its jobs and its history. drained: the queue is.
func (w Style) ScheduleReasons(s answer.Schedule, drained bool, now time.Time) (all []ScheduleReason) {
	add := func(kind, format string, args ...any) {
		all = append(all, ScheduleReason{Kind: kind, Sentence: fmt.Sprintf(format, args...)})
	}
	switch s.State {
	case ScheduleBroken:
		add(ScheduleBroken, "Its due times cannot be computed: %s.", w.Clean(s.Why))
	case ScheduleStopped:
		add(ScheduleStopped, "It is stopped: %s.", w.Clean(s.Why))
	case SchedulePaused:
		if s.Until.IsZero() {
			add(SchedulePaused, "It is paused until it is resumed, and passes over its due times.")
		} else {
			add(SchedulePaused, "It is paused until %s, and passes over its due times.", w.Clock(now, s.Until.Time))
		}
	}
	if s.Failing != "" {
		add(ScheduleFailing, "It cannot go on at the moment: %s. It is tried again and again.", w.Clean(s.Failing))
	}
	if drained {
		add(ScheduleDrained, "The queue is drained, and refuses its jobs.")
	}
	if text := overlapText(s); text != "" {
		add(ScheduleOverlap, "%s", text)
		all[len(all)-1].Jobs = s.Running
	}
	add(ScheduleLast, "%s", w.lastDue(s, now))
	switch {
	case !s.Next.IsZero():
		add(ScheduleNext, "It fires next at %s, in %s.", w.Clock(now, s.Next.Truncate(time.Second)), w.Span(max(s.Next.Sub(now), 0)))
	case s.State == "active":
		add(ScheduleNext, "It fires at no known time.")
	}
	return all
}

// overlapText says what the jobs that have not ended mean for the next due time; "" if they mean nothing.
func overlapText(s answer.Schedule) string {
	if len(s.Running) == 0 || s.Overlap == "allow" {
		return ""
	}
	first, last := s.Running[0], s.Running[len(s.Running)-1]
	switch {
	case s.Overlap == "replace":
		return fmt.Sprintf("Job %d has not ended: the next due time kills it, and its jobs wait for the end (overlap replace).", first)
	case s.Overlap == "queue" && len(s.Running) > len(s.Jobs):
		return fmt.Sprintf("Job %d waits for the end of job %d: meanwhile due times are skipped (overlap queue).", last, first)
	case s.Overlap == "queue":
		return fmt.Sprintf("Job %d has not ended: the jobs of the next due time wait for its end (overlap queue).", first)
	}
	return fmt.Sprintf("Job %d has not ended: until then due times are skipped (overlap skip).", first)
}

// lastDue says what became of the newest due time of the rule.
func (w Style) lastDue(s answer.Schedule, now time.Time) string {
	for i := len(s.History) - 1; i >= 0; i-- {
		e := s.History[i]
		at := "Its last due time, " + w.Clock(now, e.Due.Truncate(time.Second)) + ","
		switch {
		case e.By != "":
			continue
		case e.Skipped != "":
			return fmt.Sprintf("%s was skipped: %s.", at, w.Clean(e.Skipped))
		case len(e.Jobs) == 0:
			return fmt.Sprintf("%s was missed: %s.", at, w.Clean(e.Missed))
		case e.Missed != "":
			return fmt.Sprintf("%s has submitted job %d late: %s.", at, e.Jobs[0], w.Clean(e.Missed))
		}
		return fmt.Sprintf("%s has submitted job %d.", at, e.Jobs[0])
	}
	return "None of its due times has come."
}
