package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/sim/study"
)

// measure is one row of the table.
type measure struct {
	name         string
	of           func(study.Outcome) float64
	unit         func(float64) string
	moreIsBetter bool // is better
}

var measures = []measure{
	{"makespan", func(o study.Outcome) float64 { return o.Makespan }, span, false},
	{"jobs per hour", func(o study.Outcome) float64 { return o.PerHour }, number, true},
	{"mean wait", func(o study.Outcome) float64 { return o.Mean }, span, false},
	{"95th percentile of waits", func(o study.Outcome) float64 { return o.P95 }, span, false},
	{"longest wait", func(o study.Outcome) float64 { return o.Longest }, span, false},
	{"slot time", func(o study.Outcome) float64 { return o.SlotSeconds }, span, false},
	{"  of it waiting for locks", func(o study.Outcome) float64 { return o.LockWaitSeconds }, span, false},
	{"  share", func(o study.Outcome) float64 { return o.LockWaitShare }, percent, false},
}

func span(s float64) string {
	switch {
	case s < 600:
		return fmt.Sprintf("%.1f s", s)
	case s < 36000:
		return fmt.Sprintf("%.1f min", s/60)
	default:
		return fmt.Sprintf("%.1f h", s/3600)
	}
}

func number(x float64) string  { return fmt.Sprintf("%.1f", x) }
func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// printTables prints the measurements and the figures about starvation.
func printTables(out io.Writer, all []study.Comparison) {
	header := table.Row{"", "predictive", "plain", "change"}
	if len(all) > 1 {
		header = append(header, "better in")
	}
	var rows []table.Row
	for _, m := range measures {
		rows = append(rows, m.row(all))
	}
	fmt.Fprintln(out, render(header, rows))
	fmt.Fprintln(out)
	fmt.Fprintln(out, render(table.Row{"kind", "jobs", "mean wait", "plain", "longest", "plain"}, kindRows(all)))
	var seen study.Starvation
	for _, c := range all {
		seen.Picks += c.Predictive.Starvation.Picks
		seen.Aged += c.Predictive.Starvation.Aged
		seen.Overtook += c.Predictive.Starvation.Overtook
	}
	fmt.Fprintf(out, "\nNo starvation: of %d choices in the predictive order %d chose a job before an earlier one,\n"+
		"%d a job that had waited for K ticks; none before an earlier job of that age.\n", seen.Picks, seen.Overtook, seen.Aged)
}

// sums adds up all seeds, and counts the seeds in which the predictive order is better.
func (m *measure) sums(all []study.Comparison) (predictive, plain float64, better int) {
	for _, c := range all {
		a, b := m.of(c.Predictive), m.of(c.Plain)
		predictive, plain = predictive+a, plain+b
		if a != b && a > b == m.moreIsBetter {
			better++
		}
	}
	return predictive, plain, better
}

func (m *measure) row(all []study.Comparison) table.Row {
	predictive, plain, better := m.sums(all)
	n := float64(len(all))
	row := table.Row{m.name, m.unit(predictive / n), m.unit(plain / n), change(predictive, plain)}
	if len(all) > 1 {
		row = append(row, fmt.Sprintf("%d of %d", better, len(all)))
	}
	return row
}

func change(is, was float64) string {
	if was == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(is/was-1))
}

// kindRows are the mean waits over all jobs of a kind, and the longest of all.
func kindRows(all []study.Comparison) []table.Row {
	var names []string
	for _, c := range all {
		for _, k := range c.Predictive.Kinds {
			if !slices.Contains(names, k.Kind) {
				names = append(names, k.Kind)
			}
		}
	}
	var rows []table.Row
	for _, name := range names {
		var a, b study.KindWait
		for _, c := range all {
			addKind(&a, c.Predictive.Kinds, name)
			addKind(&b, c.Plain.Kinds, name)
		}
		rows = append(rows, table.Row{name, fmt.Sprint(a.Jobs), span(a.Mean), span(b.Mean), span(a.Longest), span(b.Longest)})
	}
	return rows
}

func addKind(sum *study.KindWait, kinds []study.KindWait, name string) {
	for _, k := range kinds {
		if k.Kind == name {
			n := sum.Jobs + k.Jobs
			sum.Mean = (sum.Mean*float64(sum.Jobs) + k.Mean*float64(k.Jobs)) / float64(n)
			sum.Jobs, sum.Longest = n, max(sum.Longest, k.Longest)
		}
	}
}

func render(header table.Row, rows []table.Row) string {
	writer := term.NewTable()
	columns := make([]table.ColumnConfig, 0, len(header))
	for i := range header {
		if i > 0 {
			columns = append(columns, table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight})
		}
	}
	writer.SetColumnConfigs(columns)
	writer.AppendHeader(header)
	writer.AppendRows(rows)
	return writer.Render()
}
