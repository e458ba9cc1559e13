package why

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// --follow is bounded in depth and number of jobs; the named jobs are not.
func TestWhyWalkIsBounded(t *testing.T) {
	chain := whyWalk{follow: true, met: map[int64]bool{}}
	chain.add([]int64{1000}, 0)
	asked := 0
	for len(chain.next) > 0 {
		step := chain.take()
		asked++
		chain.add([]int64{step.id - 1, 1000}, step.depth+1) // and back to the first
	}
	require.Equal(t, 1+followDepth, asked)
	require.Equal(t, 1, chain.left)

	star := whyWalk{follow: true, met: map[int64]bool{}}
	for id := range int64(60) {
		star.add([]int64{id}, 0)
	}
	require.Len(t, star.next, 60)

	star = whyWalk{follow: true, met: map[int64]bool{}}
	star.add([]int64{1000}, 0)
	for id := range int64(60) {
		star.add([]int64{id}, 1)
	}
	require.Len(t, star.next, followJobs)
	require.Equal(t, 61-followJobs, star.left)

	alone := whyWalk{met: map[int64]bool{}}
	alone.add([]int64{1}, 1)
	require.Empty(t, alone.next)
	require.Zero(t, alone.left)
}
