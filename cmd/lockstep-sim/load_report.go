package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"lockstep/sim/study/throughput"
)

// report prints the result as text.
func (l *loadResult) report(out io.Writer) {
	l.head(out)
	if l.Run != nil {
		l.reportRun(out)
	}
	if len(l.Growth) > 0 {
		l.reportGrowth(out)
	}
}

// head describes the work in front of the results.
func (l *loadResult) head(out io.Writer) {
	order := "predictive"
	if l.Plain {
		order = "plain"
	}
	fmt.Fprintf(out, "%s: %s\n%d jobs, %d slots, %d nodes, load %g, %s order, ", l.Mix, l.about, l.Jobs, l.Slots, l.Nodes, l.Load, order)
	if len(l.Set) > 0 {
		fmt.Fprintf(out, "%s, ", strings.Join(l.Set, ", "))
	}
	fmt.Fprintf(out, "seed %d\n", l.Seed)
	fmt.Fprintln(out)
}

func (l *loadResult) reportRun(out io.Writer) {
	o, c := l.Run.Outcome, l.Run.Cost
	fmt.Fprintln(out, render(table.Row{"in virtual time", ""}, []table.Row{
		{"makespan", long(o.Makespan)}, {"jobs per hour", number(o.PerHour)}, {"mean wait", span(o.Mean)},
		{"95th percentile of waits", span(o.P95)}, {"longest wait", span(o.Longest)},
		{"slot time waiting for locks", percent(o.LockWaitSeconds / max(o.SlotSeconds, 1))},
		{"most jobs pending", fmt.Sprint(o.PeakPending)}}))
	fmt.Fprintf(out, "\n%d jobs in %s, %.0f per second.\n\n", o.Jobs, span(c.Seconds), c.JobsPerSecond)
	fmt.Fprintln(out, render(table.Row{"cost of a decision", "decisions", "mean", "p50", "p99", "max"}, []table.Row{
		spreadRow("when jobs come", c.Arrivals), spreadRow("when an opcode ends", c.Ends)}))
	if m := c.Memory; m.Pending > 0 {
		fmt.Fprintf(out, "\nMemory with %d pending: %.0f bytes a job in the scheduler, and %s for the locks of those with a slot.\n\n",
			m.Pending, m.PerPending(), size(m.Locks))
	} else {
		fmt.Fprint(out, "\nToo few jobs were pending to measure their memory.\n\n")
	}
}

func spreadRow(name string, s throughput.Spread) table.Row {
	return table.Row{name, fmt.Sprint(s.N), short(s.Mean), short(s.P50), short(s.P99), short(s.Max)}
}

func (l *loadResult) reportGrowth(out io.Writer) {
	var rows []table.Row
	for i, r := range l.Growth {
		row := table.Row{fmt.Sprint(r.Pending), short(r.Decisions.Mean), "", short(r.Decisions.P50), short(r.Decisions.P99),
			short(r.Decisions.Max), short(r.Enqueue), fmt.Sprintf("%.0f", r.Memory.PerPending()), "", size(r.Memory.Locks)}
		if i > 0 {
			was := l.Growth[i-1]
			row[2] = fmt.Sprintf("x %.1f", r.Decisions.Mean/was.Decisions.Mean)
			row[8] = fmt.Sprintf("x %.2f", r.Memory.PerPending()/was.Memory.PerPending())
		}
		rows = append(rows, row)
	}
	header := table.Row{"pending", "decision", "growth", "p50", "p99", "max", "enqueue", "bytes a job", "growth", "locks"}
	fmt.Fprintln(out, render(header, rows))
	fmt.Fprintf(out,
		"\nMeans of %d ends of jobs for each backlog, each with its effects and one new job; the growth is relative to the row above.\n",
		l.Growth[0].Decisions.N)
}

// short formats a time in seconds up to about a second, with its unit.
func short(s float64) string {
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.1f µs", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.2f ms", s*1e3)
	default:
		return fmt.Sprintf("%.2f s", s)
	}
}

// long formats a time in seconds up to years: span, but days from four days on.
func long(s float64) string {
	if day := 24 * 3600.0; s >= 4*day {
		return fmt.Sprintf("%.1f d", s/day)
	}
	return span(s)
}

func size(bytes int64) string {
	if bytes < 10<<20 {
		return fmt.Sprintf("%d kB", max(bytes, 0)>>10)
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}
