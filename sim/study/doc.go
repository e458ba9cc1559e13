// Package study compares the predictive order of jobs with the plain one. It plans the
// work of a mix (Mix, NewPlan), has a simulated world do it in either order (Compare), and
// measures when each job waits, holds a slot and executes (Outcome, JobTiming).
//
// It is research tooling: the daemon does not use it, and package sim does not import it.
// It sees a world only through what sim exports: batches of jobs go in, JobEvents come
// out. A Comparison of the same options and seed is always the same.
//
// Below it is throughput, which does a million jobs with core's decisions alone.
package study
