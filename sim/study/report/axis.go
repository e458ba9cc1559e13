package report

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// px is a length or position in a chart, in the units of its viewBox.
type px float64

// String prints at most two digits after the point.
func (p px) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*100)/100, 'f', -1, 64)
}

// Charts over time have the same width and margins, so that they can be compared one below the
// other.
const (
	chartWidth = 1200
	marginLeft = 130
	marginEnd  = 64
)

// frame is the drawing area of a chart, with its axes.
type frame struct {
	Width, Height            px // of the full chart
	Left, Right, Top, Bottom px
	X, Y                     []tick
}

type tick struct {
	At    px
	Label string
}

// frameOver makes the frame of a chart over time, with an area of that height.
func frameOver(t timeScale, height px) frame {
	return frame{Width: chartWidth, Height: height + 30, Left: marginLeft, Right: chartWidth - marginEnd, Top: 4, Bottom: height + 4, X: t.ticks()}
}

// timeScale maps times to positions. The axis counts from the beginning of the span.
type timeScale struct{ span }

func (t timeScale) x(at time.Duration) px {
	share := float64(at-t.from) / float64(max(t.length(), 1))
	return marginLeft + px(share*(chartWidth-marginLeft-marginEnd))
}

// timeSteps are the permitted distances of ticks.
var timeSteps = []time.Duration{
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	1 * time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	1 * time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// ticksMost bounds the ticks on the axis of time.
const ticksMost = 13

func (t timeScale) ticks() []tick {
	step := timeSteps[0]
	for _, s := range timeSteps {
		if step = s; t.length()/s < ticksMost {
			break
		}
	}
	for step >= 24*time.Hour && t.length()/step >= ticksMost {
		step *= 2
	}
	var all []tick
	for at := time.Duration(0); at <= t.length(); at += step {
		all = append(all, tick{t.x(t.from + at), tickLabel(at, step)})
	}
	return all
}

// tickLabel prints a time in the unit of the step, so that all labels of an axis are alike.
func tickLabel(at, step time.Duration) string {
	switch {
	case at == 0:
		return "0"
	case step >= 24*time.Hour:
		return fmt.Sprintf("%d d", at/(24*time.Hour))
	case step >= time.Hour:
		return fmt.Sprintf("%d h", at/time.Hour)
	case step >= time.Minute:
		return fmt.Sprintf("%d min", at/time.Minute)
	default:
		return fmt.Sprintf("%d s", at/time.Second)
	}
}

// countTicks places about four round numbers from 0 to most between bottom and top.
func countTicks(most float64, top, bottom px) (ticks []tick, y func(float64) px) {
	step := 1.0
	most -= 1e-6 // means are sums of fractions
	for i := 0; most/step > 5; i++ {
		step *= []float64{2, 2.5, 2}[i%3] // 1, 2, 5, 10
	}
	last := max(math.Ceil(most/step), 1) * step
	y = func(n float64) px { return bottom - px(n/last)*(bottom-top) }
	for n := 0.0; n <= last; n += step {
		label := strconv.FormatFloat(n, 'f', -1, 64)
		if last >= 10_000 && n > 0 {
			label = strconv.FormatFloat(n/1000, 'f', -1, 64) + "k"
		}
		ticks = append(ticks, tick{y(n), label})
	}
	return ticks, y
}

// Span is the width of the area.
func (f frame) Span() px { return f.Right - f.Left }

// LabelX is the right end of labels before the area, and AfterX the left end of labels behind it.
func (f frame) LabelX() px { return f.Left - 6 }
func (f frame) AfterX() px { return f.Right + 6 }
