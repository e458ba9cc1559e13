package sched

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// The heap is compared with a sorted list.
func TestTheRootIsTheSmallest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h entries
		root := int32(0)
		at := map[job.ID]int32{}
		var ids []job.ID
		remove := func(id job.ID) {
			root = h.remove(root, at[id])
			h.release(at[id])
			ids = slices.DeleteFunc(ids, func(other job.ID) bool { return other == id })
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				for _, n := range rapid.SliceOfDistinct(rapid.IntRange(1, 100), rapid.ID).Draw(t, "ids") {
					if id := job.ID(n); !slices.Contains(ids, id) {
						at[id] = h.alloc()
						h.items[at[id]].id = id
						root = h.meld(root, at[id])
						ids = append(ids, id)
					}
				}
				slices.Sort(ids)
			},
			"remove": func(t *rapid.T) {
				if len(ids) > 0 {
					remove(rapid.SampledFrom(ids).Draw(t, "id"))
				}
			},
			"remove the first": func(t *rapid.T) {
				if len(ids) > 0 {
					remove(ids[0])
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(ids) == 0, root == 0)
				if root != 0 {
					require.Equal(t, ids[0], h.items[root].id)
					require.Zero(t, h.items[root].parent)
				}
			},
		})
		for len(ids) > 0 {
			require.Equal(t, ids[0], h.items[root].id)
			remove(ids[0])
		}
		require.Zero(t, root)
	})
}
