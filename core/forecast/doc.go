// Package forecast owns the estimates of when jobs start and end. It plays the policy of package sched forward in a
// copy: the jobs that run end after their expected durations, and the copy picks the next ones. It is pure. The caller
// passes a World, which is a copy of what the scheduler knows. Nothing survives a crash, and nothing is kept.
//
// Each estimate is a range, from three plays: all opcodes take as long as a tenth of the durations of their kinds, as
// half, and as nine tenths. The estimates leave out jobs that will come, failures, changed rules, and locks that are
// not declared.
package forecast
