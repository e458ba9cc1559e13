package jobproc

import "time"

// In a cluster the process of a job ends itself when its node may not be the master any longer: the next master may have
// failed the job by then and granted its locks to other jobs (design.md "Master"; package replication says how these times fit
// with the others).
const (
	// LeaseProbe is how often the process checks the lease.
	LeaseProbe = 250 * time.Millisecond
	// LeaseGrace is the time that the command gets to end after SIGTERM.
	LeaseGrace = 500 * time.Millisecond
	// Fence is how long a new master waits before it starts a job or grants a lock where jobs ran on another node.
	Fence = 2 * time.Second

	// leaseEndProbe is how often the process checks during the grace whether the command has ended.
	leaseEndProbe = 10 * time.Millisecond
)

// RemainingGrace is the time that a command gets to end, where the lease expired some time before the process noticed,
// because the machine or the process stood still. The grace ends with the fence: after the fence the next job with the
// same locks may work.
func RemainingGrace(expired time.Duration) time.Duration {
	return min(LeaseGrace, max(0, Fence-expired))
}

// What the permission frame says by which the daemon permits a process to start. A daemon of an older version sends an
// empty frame: the process needs the lease then if the lease file exists. Job processes of an older version ignore it.
const (
	// LeaseRequired: the node belongs to a cluster. A process that finds no lease file does not begin.
	LeaseRequired = "lease"
	// LeaseNotRequired: the node is alone.
	LeaseNotRequired = "no lease"
)

// StartEnvName is the variable by which a process gets the number of its start, for the name of its lock file (paths.JobLivelockName).
// Without it the start is the first. Job processes of an older version ignore it.
const StartEnvName = "LOCKSTEP_START"

// CgroupEnvName is the variable by which a process gets the control group below which it makes a group for each command. Without it
// commands run in the group of the process.
const CgroupEnvName = "LOCKSTEP_JOB_CGROUP"

// LeaseGuard decides how a process ends itself, and its command before, when the lease is over. The zero value is that of
// a process with a valid lease.
type LeaseGuard struct {
	ending bool      // the lease is over, for good
	killAt time.Time // the end of the command's grace
}

// LeaseAction is what the process does after a look at the lease.
type LeaseAction uint8

const (
	// LeaseContinue: the process looks again later.
	LeaseContinue LeaseAction = iota
	// LeaseTerminate: the process sends SIGTERM to its command, and looks again.
	LeaseTerminate
	// LeaseKill: the process kills what is left of its command and ends at once. It does not write the job file, which
	// belongs to the next master, and leaves its lock file.
	LeaseKill
)

// Observe takes a look at the lease. expired is for how long the lease has been over, 0 while the lease is valid.
// commandRuns says whether a command of the process runs. The next look follows after again.
func (g *LeaseGuard) Observe(now time.Time, expired time.Duration, commandRuns bool) (action LeaseAction, again time.Duration) {
	switch {
	case g.ending:
		if commandRuns && now.Before(g.killAt) {
			return LeaseContinue, leaseEndProbe
		}
		return LeaseKill, 0
	case expired == 0:
		return LeaseContinue, LeaseProbe
	}
	g.ending = true
	grace := RemainingGrace(expired)
	if !commandRuns || grace == 0 {
		return LeaseKill, 0
	}
	g.killAt = now.Add(grace)
	return LeaseTerminate, leaseEndProbe
}

// Ending reports whether the lease is over: the process writes and starts nothing more.
func (g *LeaseGuard) Ending() bool { return g.ending }
