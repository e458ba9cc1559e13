package jobproc

import "time"

// In a cluster the process of a job ends itself when its node may not be the master
// any longer: another one may have failed the job by then, and granted its locks to others
// (design.md 9; package replication says how these times fit with the others).
const (
	// LeaseProbe is how often it checks the lease.
	LeaseProbe = 250 * time.Millisecond
	// LeaseGrace is the time that its command gets to end, after SIGTERM.
	LeaseGrace = 500 * time.Millisecond
	// Fence is how long a new master waits before it starts a job, or grants a lock,
	// where jobs ran on another node.
	Fence = 2 * time.Second
)

// RemainingGrace is the time that a command gets to end when the lease has been over for some time before that is
// noticed, because the machine or the process stood still. The grace ends with the fence: after that the next job with
// its locks may work.
func RemainingGrace(expired time.Duration) time.Duration {
	return min(LeaseGrace, max(0, Fence-expired))
}

// What the frame says by which the daemon permits a process to start. A daemon of an
// older version sends an empty one: the process needs the lease then if its file is
// there. Job processes of an older version ignore it.
const (
	// LeaseRequired: the node belongs to a cluster. A process that finds no lease file
	// does not begin.
	LeaseRequired = "lease"
	// LeaseNotRequired: the node is alone.
	LeaseNotRequired = "no lease"
)
