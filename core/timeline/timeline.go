// Package timeline computes the layout of charts of jobs: the lanes of a chart over time, and the layers of a graph of dependencies. It is
// pure; the console draws what it returns.
package timeline

import (
	"cmp"
	"slices"
)

// Span is one job on a chart. Begin and End are times in any unit, Begin <= End.
type Span struct {
	ID         int64
	Begin, End int64
}

// Lanes puts spans into as few lanes as possible, so that no two spans of a lane overlap. It returns the lane of each span, in the
// order of spans, and the number of lanes. A span keeps the lowest lane that is free at its begin, as a run slot would.
func Lanes(spans []Span) (lanes []int, count int) {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(spans[a].Begin, spans[b].Begin), cmp.Compare(spans[a].ID, spans[b].ID))
	})
	lanes = make([]int, len(spans))
	var ends []int64 // of the last span of each lane
	for _, i := range order {
		lane := slices.IndexFunc(ends, func(end int64) bool { return end <= spans[i].Begin })
		if lane < 0 {
			lane = len(ends)
			ends = append(ends, 0)
		}
		ends[lane] = spans[i].End
		lanes[i] = lane
	}
	return lanes, len(ends)
}

// Ticks are at most count+1 round values from begin to end: multiples of the first of steps, which are ascending, that leaves so few.
// They are nil for an empty interval.
func Ticks(begin, end int64, count int, steps []int64) []int64 {
	if end <= begin || len(steps) == 0 {
		return nil
	}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if (end-begin)/s < int64(count) {
			step = s
			break
		}
	}
	var ticks []int64
	for at := (begin + step - 1) / step * step; at <= end && len(ticks) <= count; at += step {
		ticks = append(ticks, at)
	}
	return ticks
}

// Edge is a dependency: To waits for From.
type Edge struct{ From, To int64 }

// Place is where a job is drawn in a graph of dependencies: its layer, and its place in the layer, from 0.
type Place struct{ Layer, Row int }

// Layers puts jobs into layers, so that each edge goes from a layer to a later one: a job is in the layer after the last one of those that
// it waits for. Within a layer the jobs are near those that they wait for. Edges that make a cycle are ignored, and so are edges of
// unknown jobs.
func Layers(ids []int64, edges []Edge) map[int64]Place {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	before := map[int64][]int64{}
	for _, id := range ids {
		before[id] = nil
	}
	for _, e := range edges {
		_, from := before[e.From]
		if list, to := before[e.To]; from && to {
			before[e.To] = append(list, e.From)
		}
	}
	layer := map[int64]int{}
	var visit func(id int64, path map[int64]bool) int
	visit = func(id int64, path map[int64]bool) int {
		if l, done := layer[id]; done {
			return l
		}
		path[id] = true
		l := 0
		for _, b := range before[id] {
			if !path[b] {
				l = max(l, visit(b, path)+1)
			}
		}
		delete(path, id)
		layer[id] = l
		return l
	}
	var layers [][]int64
	for _, id := range ids {
		l := visit(id, map[int64]bool{})
		for len(layers) <= l {
			layers = append(layers, nil)
		}
		layers[l] = append(layers[l], id)
	}
	places := map[int64]Place{}
	for l, members := range layers {
		centre := func(id int64) float64 { // mean row of those before, in rows
			sum, n := 0, 0
			for _, b := range before[id] {
				if p, placed := places[b]; placed {
					sum += p.Row
					n++
				}
			}
			if n == 0 {
				return float64(len(members))
			}
			return float64(sum) / float64(n)
		}
		slices.SortFunc(members, func(a, b int64) int { return cmp.Or(cmp.Compare(centre(a), centre(b)), cmp.Compare(a, b)) })
		for row, id := range members {
			places[id] = Place{l, row}
		}
	}
	return places
}
