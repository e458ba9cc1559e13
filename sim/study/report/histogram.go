package report

import (
	"fmt"
	"time"
)

// histogram shows the number of jobs by their wait, in both orders.
type histogram struct {
	frame
	Title string
	Bars  []waitBar
	Means []string // by order
}

type waitBar struct {
	Class      string
	Title      string
	X, Y, W, H px
}

// waitEdges are the lower edges of bins: round, and about even on a logarithmic scale.
var waitEdges = []time.Duration{
	0, 1 * time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour, 24 * time.Hour, 48 * time.Hour, 120 * time.Hour, 240 * time.Hour,
}

// wide and narrow are the sizes of a histogram.
var (
	wide   = frame{Width: chartWidth, Height: 270, Left: 56, Right: chartWidth - 12, Top: 10, Bottom: 240}
	narrow = frame{Width: 390, Height: 170, Left: 34, Right: 384, Top: 8, Bottom: 140}
)

// drawWaits counts the jobs of a kind; "" for all. All histograms have the same bins.
func drawWaits(title string, orders []order, kind string, size frame) histogram {
	counts := make([][]int, len(orders))
	h := histogram{frame: size, Title: title}
	used, most := 1, 0
	for i, o := range orders {
		counts[i] = make([]int, len(waitEdges))
		sum, n := time.Duration(0), 0
		for k := range o.jobs {
			wait := o.jobs[k].Wait()
			bin := binOf(wait)
			used = max(used, bin+1)
			if kind != "" && o.jobs[k].Kind != kind {
				continue
			}
			counts[i][bin]++
			most = max(most, counts[i][bin])
			sum, n = sum+wait, n+1
		}
		h.Means = append(h.Means, shortDuration(sum/time.Duration(max(n, 1))))
	}
	ticks, y := countTicks(float64(most), h.Top, h.Bottom)
	h.Y = ticks
	step := (h.Right - h.Left) / px(used)
	for bin := range used {
		x := h.Left + px(bin)*step
		if size.Width == chartWidth || bin%3 == 1 {
			h.X = append(h.X, tick{x, edgeLabel(waitEdges[bin])})
		}
		width := step * 0.8 / px(len(orders))
		for i, o := range orders {
			if n := counts[i][bin]; n > 0 {
				h.Bars = append(h.Bars, waitBar{o.Class, fmt.Sprintf("%s order: %d jobs waited %s", o.Name, n, binLabel(bin)),
					x + step*0.1 + px(i)*width, y(float64(n)), width, h.Bottom - y(float64(n))})
			}
		}
	}
	return h
}

func binOf(wait time.Duration) int {
	bin := 0
	for bin+1 < len(waitEdges) && wait >= waitEdges[bin+1] {
		bin++
	}
	return bin
}

func binLabel(bin int) string {
	if bin+1 == len(waitEdges) {
		return edgeLabel(waitEdges[bin]) + " or longer"
	}
	return fmt.Sprintf("%s to %s", edgeLabel(waitEdges[bin]), edgeLabel(waitEdges[bin+1]))
}

// edgeLabel prints a round duration.
func edgeLabel(d time.Duration) string {
	switch {
	case d == 0:
		return "0"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d <= 24*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	default:
		return fmt.Sprintf("%d d", d/(24*time.Hour))
	}
}
