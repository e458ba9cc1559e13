package timeline_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/timeline"
)

// No two spans of a lane overlap, and there are no more lanes than spans at one time.
func TestLanes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var spans []timeline.Span
		for i := range rapid.IntRange(0, 40).Draw(t, "spans") {
			begin := rapid.Int64Range(0, 50).Draw(t, "begin")
			spans = append(spans, timeline.Span{ID: int64(i), Begin: begin, End: begin + rapid.Int64Range(1, 10).Draw(t, "length")})
		}
		lanes, count := timeline.Lanes(spans)
		most := 0
		for at := range int64(61) {
			used := map[int]bool{}
			for i, s := range spans {
				if s.Begin <= at && at < s.End {
					if used[lanes[i]] {
						t.Fatalf("two spans of lane %d at %d", lanes[i], at)
					}
					used[lanes[i]] = true
				}
			}
			most = max(most, len(used))
		}
		if count != most {
			t.Fatalf("%d lanes, %d are needed", count, most)
		}
	})
}

func TestTicks(t *testing.T) {
	require.Equal(t, []int64{10, 15, 20, 25}, timeline.Ticks(7, 27, 5, []int64{1, 5, 60}))
	require.Nil(t, timeline.Ticks(5, 5, 3, []int64{1}))
}

// Each edge that is in no cycle leads to a later layer, and no two jobs have the same place.
func TestLayers(t *testing.T) {
	require.Equal(t, map[int64]timeline.Place{1: {0, 0}, 2: {0, 1}, 3: {1, 0}, 4: {2, 0}},
		timeline.Layers([]int64{4, 3, 2, 1}, []timeline.Edge{{1, 3}, {2, 3}, {3, 4}, {1, 4}, {9, 4}}))
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 20).Draw(t, "jobs")
		var ids []int64
		for id := range n {
			ids = append(ids, id+1)
		}
		var edges []timeline.Edge
		for range rapid.IntRange(0, 40).Draw(t, "edges") {
			from := rapid.Int64Range(1, n).Draw(t, "from")
			edges = append(edges, timeline.Edge{From: from, To: rapid.Int64Range(from, n).Draw(t, "to")})
		}
		places := timeline.Layers(ids, edges)
		taken := map[timeline.Place]bool{}
		for _, id := range ids {
			if p, is := places[id]; !is || taken[p] {
				t.Fatalf("job %d has the place of another job", id)
			}
			taken[places[id]] = true
		}
		for _, e := range edges {
			if e.From != e.To && places[e.From].Layer >= places[e.To].Layer {
				t.Fatalf("edge %v goes back", e)
			}
		}
	})
	require.Len(t, timeline.Layers([]int64{1, 2}, []timeline.Edge{{1, 2}, {2, 1}}), 2, "a cycle ends")
}
