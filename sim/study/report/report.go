// Package report draws what study.Compare has measured, as one page of HTML that
// needs nothing else: no script, no network, charts as inline SVG.
//
// It is pure: the same Report gives the same bytes.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"lockstep/sim/study"
)

// Report is the content of a page.
type Report struct {
	Mix        study.Mix
	Options    study.CompareOptions
	Settings   []string // name=value, as they were given
	Command    string   // the command that makes the page
	Measures   []Measure
	Comparison study.Comparison // with the timings of all jobs
}

// Measure is a row of the table at the top: one figure of both orders, with units.
type Measure struct {
	Name, Predictive, Plain, Change string
	Verdict                         string // on the order expected: "better", "worse", or "" for neither
}

// Bounds of what is drawn, for each order. The page says what is left out.
const (
	maxJobs  = 4000 // bars in a Gantt chart, plus those of the last moment
	maxRows  = 120  // run slots in a Gantt chart
	maxLocks = 30
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// order is one of the two orders, with its jobs.
type order struct {
	Name  string
	Class string // in the style sheet
	jobs  []study.JobTiming
	rows  []int // by job: its row in the Gantt chart
}

// view is the input of the template.
type view struct {
	Report
	Kinds     []legend
	Gantts    []gantt
	Locks     []lockChart
	Queue     []lineChart
	Waits     histogram
	KindWaits []histogram
	LeftOut   []string // of the charts over time
	LocksLeft string
	Columns   string // what a point of the queue charts stands for
}

type legend struct {
	Class string
	Name  string
	Jobs  int
}

// Write writes the page. The comparison must have timings.
func Write(w io.Writer, r Report) error {
	orders := []order{
		{Name: "expected", Class: "expected", jobs: r.Comparison.Expected.Timings},
		{Name: "plain", Class: "plain", jobs: r.Comparison.Plain.Timings},
	}
	if len(orders[0].jobs) == 0 || len(orders[1].jobs) == 0 {
		return fmt.Errorf("the comparison has no timings of jobs: set CompareOptions.Timings")
	}
	v := view{Report: r}
	kinds := map[string]string{}
	for i, k := range r.Comparison.Expected.Kinds {
		kinds[k.Kind] = fmt.Sprintf("k%d", i%kindColours)
		v.Kinds = append(v.Kinds, legend{kinds[k.Kind], k.Kind, k.Jobs})
	}
	full := extent(orders)
	for i := range orders {
		orders[i].rows = fillRows(orders[i].jobs)
	}
	shown := window(orders, full)
	v.LeftOut = omissions(orders, shown, full)
	for _, o := range orders {
		v.Gantts = append(v.Gantts, drawGantt(o, kinds, shown))
	}
	v.Locks, v.LocksLeft = drawLocks(orders, shown)
	v.Queue, v.Columns = drawQueue(orders, full)
	v.Waits = drawWaits("all jobs", orders, "", wide)
	for _, k := range v.Kinds {
		v.KindWaits = append(v.KindWaits, drawWaits(k.Name, orders, k.Name, narrow))
	}
	return page.Execute(w, v)
}

// kindColours is the number of colours in the style sheet.
const kindColours = 10

// extent is the time from the first submission to the last end, in both orders.
func extent(orders []order) span {
	full := span{1 << 62, 0}
	for _, o := range orders {
		for i := range o.jobs {
			full.from, full.to = min(full.from, o.jobs[i].Submitted), max(full.to, o.jobs[i].Ended)
		}
	}
	return full
}

// omissions says what the charts over time do not show.
func omissions(orders []order, shown, full span) []string {
	var lines []string
	jobs, rows := 0, 0
	for _, o := range orders {
		drawn := 0
		for i := range o.jobs {
			rows = max(rows, o.rows[i]+1)
			if o.rows[i] < maxRows && o.jobs[i].Chosen < shown.to {
				drawn++
			}
		}
		jobs = max(jobs, drawn)
	}
	if shown != full {
		lines = append(lines, fmt.Sprintf("The charts of slots and locks end after the first %s of %s, for %d jobs are too many to draw: %d of each order are in them at most. With fewer --jobs they show all.",
			longDuration(shown.length()), longDuration(full.length()), len(orders[0].jobs), jobs))
	}
	if rows > maxRows {
		lines = append(lines, fmt.Sprintf("The first %d of %d run slots are drawn.", maxRows, rows))
	}
	return lines
}

// shortDuration prints a duration in one unit.
func shortDuration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 10*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	default:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
}

// longDuration prints a duration in two units if it is long.
func longDuration(d time.Duration) string {
	pair := func(n time.Duration, unit string, m time.Duration, part string) string {
		if m == 0 {
			return fmt.Sprintf("%d %s", n, unit)
		}
		return fmt.Sprintf("%d %s %d %s", n, unit, m, part)
	}
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return pair(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 240*time.Hour:
		d = d.Round(time.Minute)
		return pair(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	default:
		d = d.Round(time.Hour)
		return pair(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
	}
}
