package why_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
	"lockstep/core/why"
)

var plain = why.Style{Clean: func(text string) string { return text }}

// The sentences about locks and reservations in the order expected.
func TestWhatAJobWaitsForInTheOrderExpected(t *testing.T) {
	for want, r := range map[string]answer.Reason{
		"It has a reservation, and starts when job 17 has ended.": {
			Pending: 1, Reserves: true, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}}}},
		"It has a reservation, and starts when jobs 17 and 23 have ended.": {
			Pending: 1, Position: 1, Reserves: true, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}}, {Job: 23, Locks: []string{"node/a"}}}},
		"It has a reservation, and starts when jobs 17 and 4 more have ended.": {
			Pending: 1, Reserves: true, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}}}, OtherBlockers: 4},
		"It has a reservation, and starts when job 17 and gnt-cluster have left its locks.": {
			Pending: 1, Reserves: true, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}}, {Owner: "gnt-cluster", Locks: []string{"node/a"}}}},
		"It has a reservation, and starts when gnt-cluster has left its locks.": {
			Pending: 1, Reserves: true, BlockedBy: []answer.LockBlocker{{Owner: "gnt-cluster", Locks: []string{"node/a"}}}},
		"It waits for node/a, which job 17 has.": {
			Position: 1, Pending: 5, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}, Holds: true}}},
		"It waits for node/a, node/b and 3 more, which job 17 gets first; node/c, which gnt-cluster has; and for 1 other owner.": {
			Position: 1, Pending: 5, OtherBlockers: 1, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a", "node/b"}, OtherLocks: 3},
				{Owner: "gnt-cluster", Locks: []string{"node/c"}, Holds: true}}},
		"It waits for node/a, which job 17 has. 2 reservations are before it. It is number 3 of 5 pending jobs. More urgent jobs are pending, and nothing is promised to it while such jobs come.": {
			Position: 3, Pending: 5, BlockedBy: []answer.LockBlocker{{Job: 17, Locks: []string{"node/a"}, Holds: true}}, ReservationsBefore: 2, NothingPromised: true},
		"Job 4 has a reservation for locks that it wants, and starts before it. 1 reservation is before it. It is number 3 of 5 pending jobs.": {
			Position: 3, Pending: 5, ReservedBy: 4, ReservationsBefore: 1},
		"It is next of 5 pending jobs.": {Position: 1, Pending: 5},
	} {
		r.Kind = answer.WhyOrder
		require.Equal(t, want, plain.Sentence(r, time.Time{}).String())
	}
}
