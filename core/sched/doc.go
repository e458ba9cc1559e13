// Package sched decides which pending jobs run next (design.md "Scheduling"). It is pure. The caller reports candidates, running
// jobs, locks and settings, and passes in the time. Pick returns the jobs that get the free slots, in order. Explain
// returns why a candidate does not run yet.
//
// State is what the caller sees. It consists of jobs, which all orders share (jobs.go), and of one order (order.go): expected
// (expected*.go, places.go, reserve.go, aged.go), or weights, which is the plain order, too (weights*.go, contention.go).
// Both compare the same groups of candidates (groups.go, buckets.go).
//
// A job goes before another if its priority is smaller; then, in the order Expected, if its score is smaller, in the
// order Weights, if its weight is smaller; then if its id is smaller. A job that carries a full limit is skipped.
//
// In the order Expected a job is skipped as well if the locks of its next opcode cannot be granted now, or if a
// reservation holds it back (reserve.go). The score is fixed when the job arrives: its time of arrival plus a multiple
// of its expected duration. Groups wait at places, by what keeps them from starting (places.go). The change of a lock
// opens the places of that lock, and a pick examines the first groups of open places only, at most 1,000 at a time.
// Groups that differ in instances only have one shape, and wait at one place if a name of the shape is taken. The place
// watches one such name, and opens when no name of the shape is taken.
//
// In the order Weights the weight says how likely the job would wait for locks of the running jobs. It falls to 0 as
// the job ages. The rest is about this order and the plain one.
//
// The cost of a pick must not grow with the length of the queue, so a pick examines few candidates:
//
//   - Candidates of equal priority, declaration and limits form a group. Within a group the smallest id
//     goes first, because arrival ticks never decrease with ids.
//   - A group's weight depends on the kind of locks it demands at each level, and on whether one of its
//     names conflicts with a running job. These bits are its demandMask. The kinds are compared with the
//     counts of all claims of the running jobs (contention.go). Each name knows the claims on it
//     (names.go); it is looked up when a pick comes to a group that declares the name.
//   - Groups that differ only in names form a bucket, ordered by id. A pick takes the first group of each
//     bucket. It continues in the bucket only while names of the first group conflict that the next group
//     may not have. It moves such a group to the bucket of its blocking names (buckets.go), so that the
//     next pick does not meet the group while the name is taken.
//
// The number of buckets is the number of different demands, times the names that are both taken and waited for. How
// many groups a pick moves depends on how many of them wait for a name that was released and want another one that is
// taken. If that is most of the backlog, a pick may examine all of it.
package sched
