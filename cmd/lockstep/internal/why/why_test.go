package why

import (
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
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

// The sentences about locks and reservations in the order expected.
func TestWhatAJobWaitsForInTheOrderExpected(t *testing.T) {
	for want, r := range map[string]answer.Reason{
		"It is next. It has a reservation, and starts when job 17 and job 23 have ended.": {
			Pending: 1, Reserves: true, BlockedJobs: []int64{17, 23}},
		`It is next. It has a reservation, and starts when job 17 and "gnt-cluster" no longer have its locks.`: {
			Pending: 1, Reserves: true, BlockedJobs: []int64{17}, BlockedOwners: []string{"gnt-cluster"}},
		"It is number 3 of 5 pending jobs. It waits for locks of job 17. 2 reservations are before it. While more urgent jobs come, nothing is promised.": {
			Position: 3, Pending: 5, BlockedJobs: []int64{17}, ReservationsBefore: 2, NothingPromised: true},
		"It is number 3 of 5 pending jobs. Job 4 has a reservation for locks that it wants, and starts before it. One reservation is before it.": {
			Position: 3, Pending: 5, ReservedBy: 4, ReservationsBefore: 1},
		"It is next of 5 pending jobs.": {Position: 1, Pending: 5},
	} {
		require.Equal(t, want, whyReason{Reason: r}.order())
	}
}
