// Package sched decides which pending jobs run next (design.md 6). Pure:
// the scheduler's actor tells it what happens and what time it is, and acts on
// what it returns.
//
// A job that may run goes before another if its priority is smaller; then, with
// the predictive order, if its weight is smaller; then if its id is. The weight
// says how likely the job would wait for locks of those that run, and falls to
// nothing as the job ages. A job that carries a full limit is passed over.
//
// Nothing on the way of one job may grow with the queue's length, so a choice
// looks at few of those who wait:
//
//   - candidates of equal priority, declaration and limits are a group. Within
//     it the smallest id goes first, whatever runs, for ages fall with ids;
//   - a group's weight depends on what it wants at each level, and on whether
//     one of its names there is in the way of one that runs: its look. The first
//     is compared with how many of those that run want what at each level
//     (load.go); a name knows who has it (names.go), and is asked when a choice
//     comes to a group that has it;
//   - groups that differ in nothing but names are a lane, ordered by id. A choice
//     takes of each lane the first group, and goes on in it only as long as
//     names are in the way of that one which need not be in that of the next.
//     Such a group moves to a lane of its like (lanes.go), so that the next choice
//     does not come upon it as long as the name is taken.
//
// There are as many lanes as ways to want something, times the names that are
// taken and waited for. What a choice moves follows how many wait for a name that
// was freed and want another that is taken; if most of a backlog does, a choice
// may look at all of it.
package sched
