package report

import (
	"cmp"
	"slices"
	"time"
)

// span is the time from one moment up to another, which is excluded.
type span struct{ from, to time.Duration }

func (s span) length() time.Duration { return s.to - s.from }

func (s span) empty() bool { return s.to <= s.from }

func (s span) clip(within span) span {
	return span{max(s.from, within.from), min(s.to, within.to)}
}

// union merges spans to disjoint ones, in order.
func union(spans []span) []span {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var joined []span
	for _, s := range sorted {
		if n := len(joined); n > 0 && s.from <= joined[n-1].to {
			joined[n-1].to = max(joined[n-1].to, s.to)
		} else if !s.empty() {
			joined = append(joined, s)
		}
	}
	return joined
}

// overlap are the parts of s that a union covers.
func overlap(s span, union []span) []span {
	first, _ := slices.BinarySearchFunc(union, s.from, func(u span, at time.Duration) int {
		if u.to <= at {
			return -1
		}
		return 1
	})
	var parts []span
	for _, u := range union[first:] {
		if u.from >= s.to {
			break
		}
		parts = append(parts, s.clip(u))
	}
	return parts
}

// level is a period with the number of concurrent spans.
type level struct {
	span
	n int
}

// levels are the periods with at least one of the spans.
func levels(spans []span) []level {
	type edge struct {
		at    time.Duration
		delta int
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		if !s.empty() {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.at, b.at) })
	var all []level
	n := 0
	for i, e := range edges {
		if n > 0 && e.at > edges[i-1].at {
			all = append(all, level{span{edges[i-1].at, e.at}, n})
		}
		n += e.delta
	}
	return all
}

func total(spans []span) time.Duration {
	sum := time.Duration(0)
	for _, s := range spans {
		sum += s.length()
	}
	return sum
}
