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

// printDistribution prints what the nodes of a Ganeti cluster have of the configuration.
func printDistribution(streams cli.Streams, colours term.Palette, d answer.Distribution) {
	if len(d.Nodes) == 0 {
		fmt.Fprintln(streams.Out, "No configuration has been distributed yet.")
		return
	}
	slices.SortFunc(d.Nodes, func(a, b answer.DistributionNode) int { return cmp.Compare(a.Name, b.Name) })
	rows := make([]table.Row, 0, len(d.Nodes))
	late := 0
	for _, n := range d.Nodes {
		if isBehind(n.Config) || isBehind(n.Ssconf) {
			late++
		}
		rows = append(rows, table.Row{term.Visible(n.Name), term.Visible(n.Address), term.Visible(n.Role),
			hasText(n.Config, colours), hasText(n.Ssconf, colours), term.OrDash(why(n, streams.Now()))})
	}
	header := table.Row{"Name", "Address", "Role", "config.data", "ssconf", "Why"}
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

// why is the reason for which a node is behind, and the time of the next call.
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
