package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/core/config"
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
	{"99.9th percentile", func(o study.Outcome) float64 { return o.P999 }, span, false},
	{"longest wait", func(o study.Outcome) float64 { return o.Longest }, span, false},
	{"slot time", func(o study.Outcome) float64 { return o.SlotSeconds }, span, false},
	{"  of it waiting for locks", func(o study.Outcome) float64 { return o.LockWaitSeconds }, span, false},
	{"  share", func(o study.Outcome) float64 { return o.LockWaitShare }, percent, false},
	{"drain for whole levels, mean", func(o study.Outcome) float64 { return o.Drains.Mean }, span, false},
	{"  longest", func(o study.Outcome) float64 { return o.Drains.Longest }, span, false},
	{"  slot time left empty", func(o study.Outcome) float64 { return o.Drains.EmptySlotSeconds }, span, false},
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

// runsOf are the names of the runs that were not omitted.
func runsOf(all []study.Comparison) []string {
	return slices.DeleteFunc(slices.Clone(study.Runs), func(name string) bool { return all[0].Run(name) == nil })
}

// printTables prints the measurements, those of each kind, and the figures about starvation.
func printTables(out io.Writer, all []study.Comparison) {
	runs, header := runsOf(all), table.Row{""}
	for _, name := range runs {
		header = append(header, name)
	}
	compares := all[0].Expected != nil && all[0].Plain != nil
	if compares {
		header = append(header, "expected to plain")
		if len(all) > 1 {
			header = append(header, "standard error", "better in")
		}
	}
	var rows []table.Row
	for _, m := range measures {
		rows = append(rows, m.row(all, runs, compares))
	}
	fmt.Fprintln(out, render(header, rows))
	bound := 0.0
	for _, c := range all {
		bound += c.Bound / float64(len(all))
	}
	fmt.Fprintf(out, "\nNo order has a mean wait below %s.\n\n", span(bound))
	header = table.Row{"kind", "jobs"}
	for _, name := range runs {
		header = append(header, name, "longest")
	}
	fmt.Fprintln(out, render(header, kindRows(all, runs)))
	printEstimates(out, all, runs)
	if all[0].Weights == nil {
		return
	}
	var seen study.Starvation
	for _, c := range all {
		seen.Picks += c.Weights.Starvation.Picks
		seen.Aged += c.Weights.Starvation.Aged
		seen.Overtook += c.Weights.Starvation.Overtook
	}
	fmt.Fprintf(out, "\nNo starvation: of %d choices in the order weights %d chose a job before an earlier one,\n"+
		"%d a job that had waited for K ticks; none before an earlier job of that age.\n", seen.Picks, seen.Overtook, seen.Aged)
}

// printEstimates prints how wrong the first estimates of the starts were, as means of the seeds that have some.
func printEstimates(out io.Writer, all []study.Comparison, runs []string) {
	for _, run := range runs {
		var sum study.Estimates
		n := 0.0
		for _, c := range all {
			if e := c.Run(run).Estimates; e != nil {
				n++
				sum.Jobs += e.Jobs
				sum.Median, sum.P90, sum.Inside, sum.Waited = sum.Median+e.Median, sum.P90+e.P90, sum.Inside+e.Inside, sum.Waited+e.Waited
			}
		}
		if n > 0 {
			fmt.Fprintf(out, "\nEstimates of the start in the run %s, for %d jobs: wrong by %s in the median, by at most %s for 90 %%;\n"+
				"%s of the starts are inside their range. Half of the jobs start within %s after the estimate.\n",
				run, sum.Jobs, span(sum.Median/n), span(sum.P90/n), percent(sum.Inside/n), span(sum.Waited/n))
		}
	}
}

// sum adds up a measure of a run over all seeds.
func (m *measure) sum(all []study.Comparison, run string) float64 {
	sum := 0.0
	for _, c := range all {
		sum += m.of(*c.Run(run))
	}
	return sum
}

func (m *measure) row(all []study.Comparison, runs []string, compares bool) table.Row {
	row := table.Row{m.name}
	for _, name := range runs {
		row = append(row, m.unit(m.sum(all, name)/float64(len(all))))
	}
	if !compares {
		return row
	}
	row = append(row, change(m.sum(all, config.OrderExpected), m.sum(all, config.OrderPlain)))
	if len(all) > 1 {
		better := 0
		for _, c := range all {
			if a, b := m.of(*c.Expected), m.of(*c.Plain); a != b && a > b == m.moreIsBetter {
				better++
			}
		}
		row = append(row, m.standardError(all), fmt.Sprintf("%d of %d", better, len(all)))
	}
	return row
}

// standardError is the standard error of the mean difference between the orders expected and plain, which have the same work for each
// seed, in percent of the mean in the plain order; "" if that mean is 0.
func (m *measure) standardError(all []study.Comparison) string {
	n := float64(len(all))
	plain := m.sum(all, config.OrderPlain) / n
	if plain == 0 {
		return ""
	}
	mean, squares := m.sum(all, config.OrderExpected)/n-plain, 0.0
	for _, c := range all {
		d := m.of(*c.Expected) - m.of(*c.Plain) - mean
		squares += d * d
	}
	return fmt.Sprintf("%.1f %%", 100*math.Sqrt(squares/(n-1)/n)/plain)
}

func change(is, was float64) string {
	if was == 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(is/was-1))
}

// kindRows are rows with the mean wait of all jobs of a kind in each run, and the longest wait.
func kindRows(all []study.Comparison, runs []string) []table.Row {
	var names []string
	for _, c := range all {
		for _, k := range c.Run(runs[0]).Kinds {
			if !slices.Contains(names, k.Kind) {
				names = append(names, k.Kind)
			}
		}
	}
	var rows []table.Row
	for _, name := range names {
		row := table.Row{name, ""}
		for _, run := range runs {
			var sum study.KindWait
			for _, c := range all {
				addKind(&sum, c.Run(run).Kinds, name)
			}
			row[1] = fmt.Sprint(sum.Jobs)
			row = append(row, span(sum.Mean), span(sum.Longest))
		}
		rows = append(rows, row)
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
