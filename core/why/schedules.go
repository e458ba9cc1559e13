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
