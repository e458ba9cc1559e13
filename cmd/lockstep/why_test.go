package main

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What --follow asks for is bounded in depth and in number; what was named is not.
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

// pendingAnswers gives every job asked about the same reason, and counts calls.
type pendingAnswers struct{ sizes []int }

func (p *pendingAnswers) ask(_ context.Context, _ string, args []any, _ any) error {
	p.sizes = append(p.sizes, len(args[0].([]int64)))
	return nil
}

func TestReasonsAreAskedForInBoundedCalls(t *testing.T) {
	jobs := make([]listedJob, 2*pendingIDsMax+1)
	for i := range jobs {
		jobs[i] = listedJob{ID: int64(i + 1), Status: statusQueued}
	}
	daemon := &pendingAnswers{}
	require.NoError(t, fillReasons(t.Context(), daemon, jobs))
	require.Equal(t, []int{pendingIDsMax, pendingIDsMax, 1}, daemon.sizes)
}

// A tree of many who wait for many is as long as there are pairs of them, not longer.
func TestWaitGraphShowsEachPairOnce(t *testing.T) {
	const layers, each = 6, 6
	state := lockState{}
	for layer := 1; layer < layers; layer++ {
		for i := range each {
			wait := jobWait{ID: int64(100*layer + i)}
			for j := range each {
				wait.On = append(wait.On, awaitJob{ID: int64(100*(layer-1) + j)})
			}
			state.Jobs = append(state.Jobs, wait)
		}
	}
	var out bytes.Buffer
	newWaitGraph(state).print(&out, palette{})
	roots, pairs := each, (layers-1)*each*each
	require.Equal(t, roots+pairs, strings.Count(out.String(), "\n"))
}
