package luxi

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/query"
	"lockstep/core/wire"
	"lockstep/messages"
)

func itemOf(id int) *query.JobItem {
	j := runningJob(int64(id))
	return &query.JobItem{ID: job.ID(id), Info: infoOf(j), Job: j}
}

func classicTable(t *testing.T) *resultTable[query.JobItem] {
	q, err := query.Jobs.NewClassicQuery([]string{"id"})
	require.NoError(t, err)
	return newResultTable(q, true)
}

// In each order of arrival the rows are in the order of indexes, without those that were skipped.
func TestRowsAreInTheOrderOfIndexes(t *testing.T) {
	const n = 12
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		table := classicTable(t)
		want := [][]int{}
		skipped := map[int]bool{}
		for i := range n {
			if skipped[i] = random.IntN(3) == 0; !skipped[i] {
				want = append(want, []int{i})
			}
		}
		for _, i := range random.Perm(n) {
			if skipped[i] {
				table.skip(i)
			} else {
				table.add(i, itemOf(i), 0)
			}
		}
		require.Equal(t, n, table.next)
		require.Empty(t, table.early)
		require.Zero(t, table.earlyBytes)
		result, err := wire.DecodeResponse(bytes.Join(table.close(), nil))
		require.NoError(t, err)
		var rows [][]int
		require.NoError(t, json.Unmarshal(result, &rows))
		require.Equal(t, want, rows)
	}
}

func TestEarlyRowsCountForTheSize(t *testing.T) {
	table := classicTable(t)
	table.add(3, itemOf(3), 0)
	table.skip(2)
	require.Positive(t, table.earlyBytes)
	require.Equal(t, table.result.Len()+table.earlyBytes, table.size())
}

func TestATableHasTheDefinitionsOfItsFields(t *testing.T) {
	q, err := query.Jobs.NewQuery([]string{"id"}, json.RawMessage("null"))
	require.NoError(t, err)
	table := newResultTable(q, false)
	table.add(0, itemOf(7), 0)
	result, err := wire.DecodeResponse(bytes.Join(table.close(), nil))
	require.NoError(t, err)
	var answer struct {
		Fields []struct{ Name string }
		Data   json.RawMessage
	}
	require.NoError(t, json.Unmarshal(result, &answer))
	require.Equal(t, []struct{ Name string }{{"id"}}, answer.Fields)
	require.JSONEq(t, `[[[0,7]]]`, string(answer.Data))
}

func TestUniqueRowsKeepTheQueuesRow(t *testing.T) {
	queues := &messages.JobRow{Id: 5, Info: &messages.JobInfo{}}
	rows := uniqueRows([]*messages.JobRow{queues, {Id: 9}, {Id: 5}, {Id: 2}})
	require.Len(t, rows, 3)
	require.Equal(t, []int64{2, 5, 9}, []int64{rows[0].Id, rows[1].Id, rows[2].Id})
	require.Same(t, queues, rows[1])
}
