package console

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// A header sorts by its column, and turns the order round at the next press. That of the job sorts the whole list.
func TestHeadersSort(t *testing.T) {
	of := func(query string) (paths map[string]string, sorted string, state map[string]string) {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		all, sorted := columns(filterOf(values), values.Get("order") == "oldest")
		paths, state = map[string]string{}, map[string]string{}
		for _, c := range all {
			paths[c.Name] = c.Path
			if c.Sort != "" {
				state[c.Name] = c.Sort
			}
		}
		return paths, sorted, state
	}
	paths, sorted, state := of("status=error&cursor=7")
	require.Equal(t, "/ui/jobs?sort=priority&status=error", paths["priority"])
	require.Equal(t, "/ui/jobs?order=oldest&status=error", paths["id"])
	require.Equal(t, map[string]string{"id": "descending"}, state)
	require.Empty(t, sorted)

	paths, sorted, state = of("sort=priority")
	require.Equal(t, "/ui/jobs?sort=-priority", paths["priority"])
	require.Equal(t, "/ui/jobs", paths["id"])
	require.Equal(t, map[string]string{"priority": "ascending"}, state)
	require.Equal(t, "priority", sorted)

	_, sorted, state = of("sort=moon&order=oldest")
	require.Equal(t, map[string]string{"id": "ascending"}, state)
	require.Empty(t, sorted)

	now := time.Now()
	row := func(id int64, priority int, took time.Duration) jobRow {
		return jobRow{ListedJob: answer.ListedJob{ID: id, Priority: priority}, Took: took}
	}
	for by, want := range map[string][]int64{"": {3, 2, 1}, "priority": {2, 3, 1}, "-priority": {3, 1, 2}, "-time": {2, 1, 3}, "moon": {3, 2, 1}} {
		rows := []jobRow{row(3, 5, 1), row(2, -5, 3), row(1, 5, 2)}
		sortRows(rows, by)
		require.Equal(t, want, []int64{rows[0].ID, rows[1].ID, rows[2].ID}, by)
	}
	at := func(ago time.Duration) answer.Time { return answer.Time{Time: now.Add(-ago)} }
	require.Equal(t, time.Minute, took(answer.ListedJob{Received: at(time.Minute)}, now))
	require.Equal(t, time.Second, took(answer.ListedJob{Received: at(time.Minute), Started: at(time.Second)}, now))
	require.Equal(t, 2*time.Second, took(answer.ListedJob{Received: at(time.Minute), Started: at(3 * time.Second), Ended: at(time.Second)}, now))
	require.Zero(t, took(answer.ListedJob{Received: at(time.Minute), Ended: at(time.Second)}, now), "it was canceled before its start")
}
