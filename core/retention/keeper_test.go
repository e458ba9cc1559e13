package retention

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A job is due when it is old enough and as many later ended jobs of its name are in the queue, whatever the order in which
// jobs were added and dropped: a keeper that is filled after a restart says the same.
func TestDueJobsAreThoseOfTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keepLast := rapid.IntRange(0, 3).Draw(t, "keep last")
		k := NewKeeper(keepLast)
		here := map[int64]Job{}
		isOlder := func(j Job) bool {
			later := 0
			for _, other := range here {
				if other.Name == j.Name && other.compare(j) > 0 {
					later++
				}
			}
			return j.Name == "" || later >= keepLast
		}
		next := int64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				next++
				j := Job{ID: next, Name: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "name"), EndUs: rapid.Int64Range(0, 20).Draw(t, "end")}
				j.FromUs = j.EndUs + rapid.Int64Range(0, 5).Draw(t, "later")
				here[j.ID] = j
				k.Add(j)
			},
			"add again": func(t *rapid.T) {
				if j := here[rapid.Int64Range(1, 10).Draw(t, "id")]; j != (Job{}) {
					k.Add(j)
				}
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
					j, there := here[id]
					require.True(t, there && isOlder(j) && j.FromUs < before, "%v", j)
					delete(here, id)
				}
				if len(due) < most {
					for _, j := range here {
						require.False(t, isOlder(j) && j.FromUs < before, "%v is due too", j)
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

// An operator archives the last job of a name: the one before it is the last one then, as after a restart.
func TestTheJobBeforeAForgottenOneStays(t *testing.T) {
	k := NewKeeper(1)
	for id := range int64(3) {
		k.Add(Job{ID: id + 1, Name: "nightly", EndUs: id, FromUs: id})
	}
	k.Forget(Job{ID: 3, Name: "nightly"})
	require.Equal(t, []int64{1}, k.TakeDue(time.UnixMicro(100), 10))
}
