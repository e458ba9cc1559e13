package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
)

// listed is the JSON output of node list. Distribution is absent outside of Ganeti mode.
type listed struct {
	answer.Nodes
	Distribution *answer.Distribution `json:"distribution,omitempty"`
}

// printDistribution prints what the nodes of a Ganeti cluster have of the configuration and of the queue.
func printDistribution(streams cli.Streams, colours term.Palette, d answer.Distribution) {
	if len(d.Nodes) == 0 {
		fmt.Fprintln(streams.Out, "No configuration has been distributed yet.")
		return
	}
	slices.SortFunc(d.Nodes, func(a, b answer.DistributionNode) int { return cmp.Compare(a.Name, b.Name) })
	rows := make([]table.Row, 0, len(d.Nodes))
	late := 0
	for _, n := range d.Nodes {
		if isBehind(n.Config) || isBehind(n.Ssconf) || lags(n.Queue) {
			late++
		}
		rows = append(rows, table.Row{term.Visible(n.Name), term.Visible(n.Address), term.Visible(n.Role),
			hasText(n.Config, colours), hasText(n.Ssconf, colours), queueText(n.Queue, streams.Now(), colours), term.OrDash(why(n, streams.Now()))})
	}
	header := table.Row{"Name", "Address", "Role", "config.data", "ssconf", "Queue", "Why"}
	fmt.Fprintln(streams.Out, term.TextTable(header, rows, []int{len(header) - 1}, streams.Width))
	text := "All nodes have it."
	if late > 0 {
		text = colours.Paint("33", term.Count(late, "node")+" behind.")
	}
	fmt.Fprintf(streams.Out, "\nThe configuration has serial number %d. %s\n", d.Serial, text)
}

func isBehind(f *answer.DistributedFile) bool { return f != nil && (f.Behind > 0 || f.Failures > 0) }

// hasText is the serial number that a node has acknowledged, and how many it is behind.
func hasText(f *answer.DistributedFile, colours term.Palette) string {
	if f == nil {
		return "-"
	}
	serial := "unknown"
	if f.Serial > 0 {
		serial = fmt.Sprint(f.Serial)
	}
	if isBehind(f) {
		return colours.Paint("33", fmt.Sprintf("%s, behind %d", serial, f.Behind))
	}
	return serial
}

// lags reports whether a candidate lacks a part of the queue for longer than a call takes.
func lags(q *answer.CopiedQueue) bool { return q != nil && (q.Behind > 0 || q.Failures > 0) }

// queueText says how many files of the queue a candidate may lack, and since when; "-" for a node that gets none.
func queueText(q *answer.CopiedQueue, now time.Time, colours term.Palette) string {
	switch {
	case q == nil:
		return "-"
	case lags(q):
		text := "behind " + fmt.Sprint(q.Behind)
		if !q.Since.IsZero() {
			text += ", " + term.Span(now.Sub(q.Since.Time))
		}
		return colours.Paint("33", text)
	case q.Comparing:
		return "being compared"
	}
	return "current"
}

// why is the reason for which a node is behind, and the time of the next call; "" if it is not.
func why(n answer.DistributionNode, now time.Time) string {
	for _, f := range []*answer.DistributedFile{n.Config, n.Ssconf} {
		switch {
		case !isBehind(f):
		case f.Sending:
			return "being sent" + after(f.Error)
		case f.Failures > 0:
			return fmt.Sprintf("failed %s, next try %s%s", term.Count(f.Failures, "time"), in(f.Retry, now), after(f.Error))
		default:
			return "waits to be sent"
		}
	}
	if q := n.Queue; q != nil && q.Failures > 0 {
		return fmt.Sprintf("queue: failed %s, next try %s%s", term.Count(q.Failures, "time"), in(q.Retry, now), after(q.Error))
	}
	return ""
}

func after(err string) string {
	if err == "" {
		return ""
	}
	return ": " + term.Visible(err)
}

func in(at answer.Time, now time.Time) string {
	if at.IsZero() || !at.After(now) {
		return "now"
	}
	return "in " + term.Span(at.Sub(now))
}
