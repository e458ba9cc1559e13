package cli

import (
	"strconv"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// The names of the three priorities that a submission may have (queue.md 8.1).
const (
	PriorityHigh   = -10
	PriorityNormal = 0
	PriorityLow    = 10
)

// PriorityName is the name of a priority, or its number.
func PriorityName(priority int) string {
	switch priority {
	case PriorityHigh:
		return "high"
	case PriorityNormal:
		return "normal"
	case PriorityLow:
		return "low"
	}
	return strconv.Itoa(priority)
}

// ParseIDs reads job ids from the command line. The error is a *UsageError.
func ParseIDs(args []string) ([]int64, error) {
	ids := make([]int64, 0, len(args))
	for _, arg := range args {
		id, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || id < 0 {
			return nil, Usagef("a job id is a number, not %q", arg)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Work is answer.Work for a terminal.
func Work(summaries []string) string { return term.Visible(answer.Work(summaries)) }

// StatusText is a status in its colour.
func StatusText(p term.Palette, status string) string {
	switch status {
	case client.StatusSuccess:
		return p.Paint("32", status) // green
	case client.StatusError:
		return p.Paint("31", status) // red
	case client.StatusCanceled, client.StatusCanceling:
		return p.Paint("33", status) // yellow
	case client.StatusRunning:
		return p.Paint("36", status) // cyan
	}
	return term.Visible(status)
}
