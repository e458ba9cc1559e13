package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/core/lock"
	"lockstep/sim/study"
)

// gantt is a chart of jobs over run slots: a row for each slot.
type gantt struct {
	frame
	Order     order
	Rows      []ganttRow
	RowHeight px
	End       px // end of the last job; 0: outside the chart
	EndLabel  string
}

type ganttRow struct {
	Y     px
	Label string // "" where there are too many
	Bars  []bar
}

// bar is a job, from when it is chosen to its end.
type bar struct {
	Class string
	Title string
	Parts []part
}

type part struct {
	Waits bool
	X, W  px
}

// fillRows assigns each job the lowest row that is free when the job is chosen. In lockstep slots
// have no numbers.
func fillRows(jobs []study.JobTiming) []int {
	rows := make([]int, len(jobs))
	var free []time.Duration // by row: free since
	for _, i := range byChosen(jobs) {
		row := slices.IndexFunc(free, func(since time.Duration) bool { return since <= jobs[i].Chosen })
		if row < 0 {
			row, free = len(free), append(free, 0)
		}
		rows[i], free[row] = row, jobs[i].Ended
	}
	return rows
}

func byChosen(jobs []study.JobTiming) []int {
	indexes := make([]int, len(jobs))
	for i := range jobs {
		indexes[i] = i
	}
	slices.SortFunc(indexes, func(a, b int) int {
		return cmp.Or(cmp.Compare(jobs[a].Chosen, jobs[b].Chosen), cmp.Compare(jobs[a].ID, jobs[b].ID))
	})
	return indexes
}

// window is the drawn part of the time: all of it, unless there are too many jobs. Then it ends
// in both orders when one order has reached the largest number of jobs.
func window(orders []order, full span) span {
	shown := full
	for _, o := range orders {
		var chosen []time.Duration
		for i := range o.jobs {
			if o.rows[i] < maxRows {
				chosen = append(chosen, o.jobs[i].Chosen)
			}
		}
		slices.Sort(chosen)
		if len(chosen) > maxJobs {
			shown.to = min(shown.to, chosen[maxJobs])
		}
	}
	return shown
}

func drawGantt(o order, kinds map[string]string, shown span) gantt {
	rows := min(slices.Max(o.rows)+1, maxRows)
	height := px(18)
	if rows > 24 {
		height = max(6, 432/px(rows))
	}
	scale := timeScale{shown}
	g := gantt{frame: frameOver(scale, px(rows)*height), Order: o, RowHeight: height - height/6, Rows: make([]ganttRow, rows)}
	every := int(11/height) + 1 // rows per label, so that labels do not overlap
	for r := range g.Rows {
		g.Rows[r].Y = g.Top + px(r)*height + height/12
		if r%every == 0 {
			g.Rows[r].Label = fmt.Sprint(r + 1)
		}
	}
	last := time.Duration(0)
	for _, i := range byChosen(o.jobs) {
		j := &o.jobs[i]
		last = max(last, j.Ended)
		if o.rows[i] < rows && j.Chosen < shown.to {
			row := &g.Rows[o.rows[i]]
			row.Bars = append(row.Bars, bar{kinds[j.Kind], describe(j, shown.from), parts(j, scale)})
		}
	}
	for r := range g.Rows {
		widen(g.Rows[r].Bars, g.Right)
	}
	if last <= shown.to {
		g.End, g.EndLabel = scale.x(last), "all done after "+longDuration(last-shown.from)
	}
	return g
}

// parts are the times in which a job only waits, and those in which it executes.
func parts(j *study.JobTiming, scale timeScale) []part {
	var all []part
	add := func(waits bool, s span) {
		if s = s.clip(scale.span); s.to >= s.from {
			x := scale.x(s.from)
			all = append(all, part{waits, x, scale.x(s.to) - x})
		}
	}
	for i, op := range j.Ops {
		end := op.Ended
		if i == len(j.Ops)-1 {
			end = j.Ended
		}
		if op.Began > op.Permitted {
			add(true, span{op.Permitted, op.Began})
		}
		add(false, span{op.Began, end})
	}
	return all
}

// leastWidth is the least width of a job, if the next one leaves room.
const leastWidth = 0.8

// widen makes short jobs visible, without covering the next one in the row.
func widen(bars []bar, right px) {
	for i, b := range bars {
		limit := right
		if i+1 < len(bars) {
			limit = bars[i+1].Parts[0].X
		}
		end := &b.Parts[len(b.Parts)-1]
		if wanted := b.Parts[0].X + leastWidth; end.X+end.W < wanted {
			end.W = max(end.W, min(wanted, limit)-end.X)
		}
	}
}

// describe is the text of a job's tooltip; times count from zero.
func describe(j *study.JobTiming, zero time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %d, %s\nsubmitted at %s, waited %s for a slot\nin its slot %s, of which %s only waiting\nended at %s",
		j.ID, j.Kind, longDuration(j.Submitted-zero), longDuration(j.Chosen-j.Submitted), longDuration(j.Ended-j.Chosen), longDuration(j.SlotWait()), longDuration(j.Ended-zero))
	for _, op := range j.Ops {
		if text := describeLocks(op.Locks); text != "" {
			fmt.Fprintf(&b, "\nlocks: %s", text)
		}
	}
	return b.String()
}

// locksTold bounds the locks in a tooltip.
const locksTold = 8

func describeLocks(items []lock.Item) string {
	var names []string
	more := 0
	for _, item := range items {
		switch {
		case ordinary(item):
		case len(names) == locksTold:
			more++
		case item.Mode == lock.Shared:
			names = append(names, item.Lock.String()+" shared")
		default:
			names = append(names, item.Lock.String())
		}
	}
	text := strings.Join(names, ", ")
	if more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ordinary reports whether a lock is the shared big lock, which nearly every job has.
func ordinary(item lock.Item) bool { return item.Lock == lock.BGL && item.Mode == lock.Shared }

// LabelDrop is the vertical position of a label within its row.
func (g gantt) LabelDrop() px { return g.RowHeight/2 + 4 }
