package query

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/core/wire"
)

func itemOf(id int) *JobItem {
	ops := []json.RawMessage{json.RawMessage(`{"OP_ID":"OP_TEST_DELAY","duration":1.0}`)}
	j := job.New(job.ID(id), ops, []int{0}, job.Timestamp{Sec: 1}, "")
	return &JobItem{ID: job.ID(id), Info: NewJobInfo(j, opcode.Summary, nil), Job: j}
}

func classicAnswer(t *testing.T) *Answer[JobItem] {
	q, err := Jobs.NewClassicQuery([]string{"id"})
	require.NoError(t, err)
	return NewAnswer(q, true)
}

// In each order of arrival the rows are in the order of indexes, without those that were skipped.
func TestRowsAreInTheOrderOfIndexes(t *testing.T) {
	const n = 12
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		table := classicAnswer(t)
		want := [][]int{}
		skipped := map[int]bool{}
		for i := range n {
			if skipped[i] = random.IntN(3) == 0; !skipped[i] {
				want = append(want, []int{i})
			}
		}
		for _, i := range random.Perm(n) {
			if skipped[i] {
				table.Skip(i)
			} else {
				table.Add(i, itemOf(i), 0)
			}
		}
		require.Equal(t, n, table.next)
		require.Empty(t, table.early)
		require.Zero(t, table.earlyBytes)
		result, err := wire.DecodeResponse(bytes.Join(table.Close(), nil))
		require.NoError(t, err)
		var rows [][]int
		require.NoError(t, json.Unmarshal(result, &rows))
		require.Equal(t, want, rows)
	}
}

func TestEarlyRowsCountForTheSize(t *testing.T) {
	table := classicAnswer(t)
	table.Add(3, itemOf(3), 0)
	table.Skip(2)
	require.Positive(t, table.earlyBytes)
	require.Equal(t, table.result.Len()+table.earlyBytes, table.Size())
}

func TestAnAnswerHasTheDefinitionsOfItsFields(t *testing.T) {
	q, err := Jobs.NewQuery([]string{"id"}, json.RawMessage("null"))
	require.NoError(t, err)
	table := NewAnswer(q, false)
	table.Add(0, itemOf(7), 0)
	result, err := wire.DecodeResponse(bytes.Join(table.Close(), nil))
	require.NoError(t, err)
	var answer struct {
		Fields []struct{ Name string }
		Data   json.RawMessage
	}
	require.NoError(t, json.Unmarshal(result, &answer))
	require.Equal(t, []struct{ Name string }{{"id"}}, answer.Fields)
	require.JSONEq(t, `[[[0,7]]]`, string(answer.Data))
}
