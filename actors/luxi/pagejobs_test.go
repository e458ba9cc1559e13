package luxi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/job"
)

func (c *client) page(request string) (ids []int64, page answer.JobPage) {
	c.Helper()
	got, err := jsonOf(c.asks("LockstepPageJobs", "["+request+"]"))
	require.NoError(c, err)
	require.NoError(c, json.Unmarshal([]byte(got), &page))
	for _, j := range page.Jobs {
		ids = append(ids, j.ID)
	}
	return ids, page
}

func TestPagesOfJobs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		w.threeJobs() // 1 to 3 in the queue, 4 and 10005 in the archive
		w.files["queue/archive/0/lockstep-4"] = `{"name": "nightly"}`
		for _, s := range []struct {
			request string
			want    []int64
			cursor  int64
		}{
			{`{}`, []int64{3, 2, 1}, 0},
			{`{"limit": 2}`, []int64{3, 2}, 2},
			{`{"limit": 2, "cursor": 2}`, []int64{1}, 0},
			{`{"oldest_first": true, "limit": 2}`, []int64{1, 2}, 2},
			{`{"oldest_first": true, "limit": 2, "cursor": 2}`, []int64{3}, 0},
			{`{"archived": true}`, []int64{10005, 4, 3, 2, 1}, 0},
			{`{"archived": true, "limit": 1}`, []int64{10005}, 10005},
			{`{"archived": true, "limit": 2, "cursor": 10005}`, []int64{4, 3}, 3},
			{`{"archived": true, "oldest_first": true, "cursor": 2}`, []int64{3, 4, 10005}, 0},
			{`{"archived": true, "names": ["night*"]}`, []int64{4}, 0},
			{`{"statuses": ["running"]}`, []int64{2}, 0},
		} {
			ids, page := c.page(s.request)
			require.Equal(t, s.want, ids, s.request)
			require.Equal(t, s.cursor, page.Cursor, s.request)
		}
	})
}

// A walk over pages meets each job once, though jobs move to the archive and new ones come between the pages.
func TestAWalkOverPagesSkipsAndDoublesNothing(t *testing.T) {
	for _, oldest := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world, c *client) {
			for id := range int64(300) {
				if id%3 == 0 {
					w.archive(someJob(id+1, job.Success))
				} else {
					w.add(someJob(id+1, job.Success))
				}
			}
			var all []int64
			for cursor, next := int64(0), int64(1000); ; next++ {
				ids, page := c.page(fmt.Sprintf(`{"archived": true, "limit": 7, "cursor": %d, "oldest_first": %t}`, cursor, oldest))
				all = append(all, ids...)
				if cursor = page.Cursor; cursor == 0 || oldest && cursor >= 300 {
					break
				}
				if !oldest {
					w.add(someJob(next, job.Queued)) // above all cursors
				}
				moved := (next - 1000) * 13 % 300
				if j := w.jobs[moved]; j != nil {
					w.archive(j)
					delete(w.jobs, moved)
				}
			}
			if !oldest {
				slices.Reverse(all)
			}
			require.Len(t, all, 300)
			require.True(t, slices.IsSorted(all))
			require.Len(t, slices.Compact(all), 300)
		})
	}
}

// A search that finds nothing in a large archive examines a bounded number of files, and says where to go on.
func TestAPageThatFindsNothingEnds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, c *client) {
		for id := range int64(2500) {
			w.archive(someJob(id+1, job.Success))
		}
		pages := 0
		for cursor := int64(0); ; pages++ {
			w.reads = nil
			ids, page := c.page(fmt.Sprintf(`{"archived": true, "statuses": ["error"], "cursor": %d}`, cursor))
			require.Empty(t, ids)
			require.LessOrEqual(t, len(w.reads), 1100)
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
		require.Equal(t, 2, pages)
	})
}

func TestWhatIsNoPage(t *testing.T) {
	for _, args := range []string{`[]`, `[{"limit": 1001}]`, `[{"cursor": -1}]`, `[{"ids": [1]}]`, `[{"max_ended": 3}]`, `[{"names": ["["]}]`} {
		onBench(t, func(t *testing.T, b *bench, c *client) {
			c.Call("LockstepPageJobs", args)
			require.Contains(t, c.Answer(), "LockstepPageJobs", args)
			b.queue.Quiet()
		})
	}
}
