package jobs

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/client"
)

// pendingAnswers answers the same reason for every job, and counts calls.
type pendingAnswers struct{ sizes []int }

func (p *pendingAnswers) Query(_ context.Context, _ string, args []any, _ any) error {
	p.sizes = append(p.sizes, len(args[0].([]int64)))
	return nil
}

func TestReasonsAreAskedForInBoundedCalls(t *testing.T) {
	jobs := make([]ListedJob, 2*pendingIDsMax+1)
	for i := range jobs {
		jobs[i] = ListedJob{ID: int64(i + 1), Status: client.StatusQueued}
	}
	daemon := &pendingAnswers{}
	require.NoError(t, fillReasons(t.Context(), daemon, jobs))
	require.Equal(t, []int{pendingIDsMax, pendingIDsMax, 1}, daemon.sizes)
}
