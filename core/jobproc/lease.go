package jobproc

import "time"

// In a cluster the process of a job ends itself when its node may not be the master
// any more: another one may have failed the job by then, and given its locks away
// (design.md 9; package repl says how these times fit with the others).
const (
	// LeaseProbe is how often it looks.
	LeaseProbe = 250 * time.Millisecond
	// LeaseGrace is what its command is given to end, after SIGTERM.
	LeaseGrace = 500 * time.Millisecond
	// Fence is how long a new master waits before it starts a job, or grants a lock,
	// where jobs ran on another node.
	Fence = 2 * time.Second
)

// RemainingGrace is what a command is given to end when the lease is noticed to have been over for
// some time, because the machine or the process stood still. The grace ends with the
// fence: from then on the next job with its locks may work.
func RemainingGrace(expired time.Duration) time.Duration {
	return min(LeaseGrace, max(0, Fence-expired))
}

// What the frame says by which the daemon permits a process to start. A daemon of an
// older version sends an empty one: the process needs the lease then if its file is
// there. Job processes of an older version do not look at it.
const (
	// LeaseRequired: the node belongs to a cluster. A process that finds no lease file
	// does not begin.
	LeaseRequired = "lease"
	// LeaseNotRequired: the node is alone.
	LeaseNotRequired = "no lease"
)
