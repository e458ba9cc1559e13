package report

import (
	"fmt"
	"strings"
	"time"
)

// lineChart shows a number of jobs over time, in both orders.
type lineChart struct {
	frame
	Title string
	Lines []line
}

type line struct {
	Class string
	Name  string
	Path  string
}

// queueColumns is the number of points of a line. Each is a mean over time, because single jobs
// would make the line flicker.
const queueColumns = 400

// drawQueue draws the number of jobs that wait for a slot, and of those that have one. said says
// what a point stands for.
func drawQueue(orders []order, full span) (charts []lineChart, said string) {
	pending := series{title: "pending: jobs that wait for a run slot"}
	running := series{title: "running: jobs that have a slot (dashed), and those of them whose opcode executes"}
	for _, o := range orders {
		var waits, slots, executes []span
		for i := range o.jobs {
			j := &o.jobs[i]
			waits = append(waits, span{j.Submitted, j.Chosen})
			slots = append(slots, span{j.Chosen, j.Ended})
			for _, op := range j.Ops {
				executes = append(executes, span{op.Began, op.Ended})
			}
		}
		pending.add(o.Class, o.Name, waits, full)
		running.add(o.Class+" faint", o.Name+", in a slot", slots, full)
		running.add(o.Class, o.Name+", executing", executes, full)
	}
	return []lineChart{pending.draw(full), running.draw(full)}, longDuration(full.length() / queueColumns)
}

// series are the lines of one chart.
type series struct {
	title string
	lines []line
	means [][]float64 // by line
	most  float64
}

func (s *series) add(class, name string, spans []span, full span) {
	means := meansOf(spans, full)
	for _, m := range means {
		s.most = max(s.most, m)
	}
	s.lines, s.means = append(s.lines, line{Class: class, Name: name}), append(s.means, means)
}

// meansOf is the mean number of concurrent spans in each column of the time.
func meansOf(spans []span, full span) []float64 {
	means := make([]float64, queueColumns)
	width := max(full.length()/queueColumns, 1)
	for _, l := range levels(spans) {
		for c := int((l.from - full.from) / width); c < queueColumns; c++ {
			column := span{full.from + time.Duration(c)*width, full.from + time.Duration(c+1)*width}
			inside := l.clip(column)
			if inside.empty() {
				break
			}
			means[c] += float64(l.n) * float64(inside.length()) / float64(width)
		}
	}
	return means
}

func (s *series) draw(full span) lineChart {
	scale := timeScale{full}
	chart := lineChart{frame: frameOver(scale, 180), Title: s.title, Lines: s.lines}
	ticks, y := countTicks(s.most, chart.Top+6, chart.Bottom)
	chart.Y = ticks
	step := (chart.Right - chart.Left) / queueColumns
	for i, means := range s.means {
		var path strings.Builder
		for c, m := range means {
			fmt.Fprintf(&path, "%s%v %v", map[bool]string{true: "M", false: "L"}[c == 0], chart.Left+(px(c)+0.5)*step, y(m))
		}
		chart.Lines[i].Path = path.String()
	}
	return chart
}
