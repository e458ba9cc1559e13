package retention

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A job becomes due when it is old enough and as many later jobs of its name have ended, whatever the order in which
// jobs were added and dropped.
func TestDueJobsAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keepLast := rapid.IntRange(0, 3).Draw(t, "keep last")
		k := NewKeeper(keepLast)
		here := map[int64]Job{}
		released := map[int64]bool{} // was older than the last ones once, and stays a candidate
		release := func() {
			for _, j := range here {
				later := 0
				for _, other := range here {
					if other.Name == j.Name && other.compare(j) > 0 && !released[other.ID] {
						later++
					}
				}
				if j.Name == "" || later >= keepLast {
					released[j.ID] = true
				}
			}
		}
		next := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next++
				j := Job{ID: next, Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), EndUs: rapid.Int64Range(0, 20).Draw(t, "end")}
				j.FromUs = j.EndUs + rapid.Int64Range(0, 5).Draw(t, "later")
				here[j.ID] = j
				k.Add(j)
				release()
			},
			"forget": func(t *rapid.T) {
				if id := rapid.Int64Range(1, 10).Draw(t, "id"); here[id] != (Job{}) {
					k.Forget(here[id])
					delete(here, id)
				}
			},
			"take": func(t *rapid.T) {
				before, most := rapid.Int64Range(0, 25).Draw(t, "before"), rapid.IntRange(0, 5).Draw(t, "most")
				due := k.TakeDue(time.UnixMicro(before), most)
				require.LessOrEqual(t, len(due), most)
				for _, id := range due {
					if j, there := here[id]; there {
						require.True(t, released[id] && j.FromUs < before, "%v", j)
						delete(here, id)
					}
				}
				if len(due) < most {
					for id, j := range here {
						require.False(t, released[id] && j.FromUs < before, "%v is due too", j)
					}
				}
			},
		})
	})
}

func TestTheLastOfEachNameStay(t *testing.T) {
	k := NewKeeper(2)
	for i, name := range []string{"nightly", "", "nightly", "weekly", "nightly", "nightly"} {
		k.Add(Job{ID: int64(i + 1), Name: name, EndUs: int64(i), FromUs: int64(i)})
	}
	due := k.TakeDue(time.UnixMicro(100), 10)
	require.Equal(t, []int64{1, 2, 3}, due)
	require.Empty(t, k.TakeDue(time.UnixMicro(100), 10))
	k.Forget(Job{ID: 6, Name: "nightly"})
	k.Add(Job{ID: 7, Name: "nightly", EndUs: 7, FromUs: 7})
	require.Empty(t, k.TakeDue(time.UnixMicro(100), 10), "5 and 7 are the last")
	require.True(t, slices.IsSorted(due))
}
