// Package sched decides which pending jobs run next (DESIGN section 6). Pure:
// the scheduler's actor tells it what happens and what time it is, and acts on
// what it returns.
//
// A job that may run goes before another if its priority is smaller; then, with
// the predictive order, if its weight is smaller; then if its id is. The weight
// says how likely the job would wait for locks of those that run, and falls to
// nothing as the job ages. A job that carries a full limit is passed over.
//
// Nothing on the way of one job may grow with the queue's length, save the
// choice itself, which looks once at each group of jobs that are alike:
//
//   - candidates of equal priority, declaration and limits are a group. Within
//     it the smallest id goes first, whatever runs, for ages fall with ids;
//   - a group's weight depends on what it wants at each level, and on whether
//     one of its names there is in the way of one that runs: its look. The
//     second is kept up to date from the names that change (names.go), so a
//     choice needs neither names nor the jobs that run, but only how many of
//     them want what at each level (load.go).
package sched
