package order

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// idsMax is the maximum number of jobs of one call.
const idsMax = 1000

// Query asks for the estimates of jobs, at most the first 1,000 of the ids, by id. Jobs that have ended have none.
func Query(ctx context.Context, daemon client.Querier, ids []int64) (map[int64]Shown, error) {
	var order answer.Order
	if err := daemon.Query(ctx, "LockstepOrder", []any{ids[:min(len(ids), idsMax)], nil}, &order); err != nil {
		return nil, fmt.Errorf("query when jobs are expected to start: %w", err)
	}
	all := map[int64]Shown{}
	for _, e := range order.Jobs {
		all[e.ID] = shownOf(e)
	}
	return all, nil
}

// Shown is an estimate as --json prints it.
type Shown struct {
	ID           int64            `json:"id"`
	Estimate     bool             `json:"estimate"` // always true
	Running      bool             `json:"running"`
	Start        *Range           `json:"start"`
	End          *Range           `json:"end"`
	LaterThan    client.Timestamp `json:"later_than"`
	Unknown      string           `json:"unknown"`
	UnknownOf    string           `json:"unknown_of"`
	WaitsFor     string           `json:"waits_for"`
	WaitsForJobs []int64          `json:"waits_for_jobs"`
}

// Range is two moments and the most likely one.
type Range struct {
	From   client.Timestamp `json:"from"`
	Likely client.Timestamp `json:"likely"`
	To     client.Timestamp `json:"to"`
}

func shownOf(e answer.Estimate) Shown {
	s := Shown{
		ID:           e.ID,
		Estimate:     true,
		Running:      e.Running,
		Start:        rangeOf(e.Start),
		End:          rangeOf(e.End),
		Unknown:      e.Unknown,
		UnknownOf:    e.UnknownOf,
		WaitsFor:     e.WaitsFor,
		WaitsForJobs: append([]int64{}, e.WaitsForJobs...),
	}
	if e.LaterThan != nil {
		s.LaterThan = client.Timestamp(*e.LaterThan)
	}
	return s
}

func rangeOf(r *answer.TimeRange) *Range {
	if r == nil {
		return nil
	}
	return &Range{client.Timestamp(r.From), client.Timestamp(r.Likely), client.Timestamp(r.To)}
}

// StartText is the expected start in a few words, as a range.
func (s Shown) StartText(now time.Time) string {
	switch {
	case s.Running:
		return "running"
	case s.Start != nil:
		return s.Start.text(now)
	case !s.LaterThan.IsZero():
		return "later than " + term.WallClock(now, s.LaterThan.Time)
	}
	return "not known"
}

// EndText is the expected end in a few words.
func (s Shown) EndText(now time.Time) string {
	if s.End == nil {
		return "not known"
	}
	return s.End.text(now)
}

// text is the likely moment, with the range in parentheses if it has a length.
func (r *Range) text(now time.Time) string {
	at := func(t client.Timestamp) string {
		if !t.After(now) {
			return "now"
		}
		return term.WallClock(now, t.Truncate(time.Second))
	}
	if at(r.From) == at(r.To) {
		return at(r.Likely)
	}
	return fmt.Sprintf("%s (%s to %s)", at(r.Likely), at(r.From), at(r.To))
}

// WaitText is what the job waits for last, and for how long, or why that is not known; "" if it waits for nothing.
func (s Shown) WaitText(now time.Time) string {
	if s.Unknown != "" {
		return s.obstacle()
	}
	if s.WaitsFor == "" || s.Start == nil {
		return ""
	}
	what := map[string]string{"lock": "locks of ", "slot": "a slot of ", "limit": "a place in a limit of ", "dependency": ""}[s.WaitsFor]
	const shown = 3
	var jobs []string
	for _, id := range s.WaitsForJobs[:min(len(s.WaitsForJobs), shown)] {
		jobs = append(jobs, fmt.Sprintf("job %d", id))
	}
	text := what + strings.Join(jobs, ", ")
	if more := len(s.WaitsForJobs) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text + ", " + term.Span(max(s.Start.Likely.Sub(now), 0))
}

// obstacle says why the start or the end is not known.
func (s Shown) obstacle() string {
	of := term.Visible(s.UnknownOf)
	switch s.Unknown {
	case "filter":
		return "filter rule " + of + " holds it until the rule is changed or deleted"
	case "hold":
		return "it is held until somebody releases it"
	case "due":
		return "it starts at a time, or its next try does"
	case "limit":
		return "no running job leaves the limit " + of
	case "foreign":
		return of + ", which is no job, has locks that it wants"
	case "no-history":
		return "no " + of + " has ended yet"
	case "dependency":
		return "it waits for a job without an estimate"
	case "behind":
		return "jobs without an estimate come first"
	case "order":
		return "there are estimates in the order expected only, not " + of
	}
	return term.Visible(s.Unknown)
}

// Sentence is the estimate as a sentence.
func (s Shown) Sentence(now time.Time) string { return "Estimate: " + s.clauses(now) + "." }

// clauses are the sentence without "Estimate: " and the full stop.
func (s Shown) clauses(now time.Time) string {
	text := ""
	switch {
	case s.Running:
		text += "it ends"
	case s.Start != nil:
		text += "it starts " + at(s.StartText(now)) + " and ends"
	case !s.LaterThan.IsZero():
		text += "it starts " + s.StartText(now)
	default:
		text += "its start is not known"
	}
	if s.Running || s.Start != nil {
		if s.End == nil {
			text += " at a time that is not known"
		} else {
			text += " " + at(s.EndText(now))
		}
	}
	if s.Unknown != "" {
		text += ": " + s.obstacle()
	}
	return text
}

func at(moment string) string {
	if strings.HasPrefix(moment, "now") {
		return moment
	}
	return "at " + moment
}
