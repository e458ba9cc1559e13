package jobs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/messages"
)

func TestUniqueRowsKeepTheQueuesRow(t *testing.T) {
	queues := &messages.JobRow{Id: 5, Info: &messages.JobInfo{}}
	rows := uniqueRows([]*messages.JobRow{queues, {Id: 9}, {Id: 5}, {Id: 2}})
	require.Len(t, rows, 3)
	require.Equal(t, []int64{2, 5, 9}, []int64{rows[0].Id, rows[1].Id, rows[2].Id})
	require.Same(t, queues, rows[1])
}
