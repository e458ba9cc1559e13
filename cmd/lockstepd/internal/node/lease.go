package node

import (
	"context"
	"time"

	"lockstep/core/replication"
	"lockstep/persistence"
)

// onLeaseRenewed is called with the end of the lease, 0 if it is revoked, and writes the lease
// for the job processes. If no other node could be the master, or if the operator has set
// that, jobs need no lease and outlive the daemon.
func (n *node) onLeaseRenewed(until time.Duration) {
	if n.jobsOutliveMastership() {
		until = persistence.Forever
	}
	publish := func() error { return n.lease.Renew(until) }
	if until == 0 {
		publish = n.lease.Expire
	}
	if err := publish(); err != nil {
		n.Log.WithField("err", err).Error("publication of the lease to job processes failed; they end when the last lease expires")
	}
}

func (n *node) jobsOutliveMastership() bool { return n.voters.Load() == 1 || n.Config.LeaveJobs }

// endJobsInterval is the pause between checks whether this node may have jobs.
const endJobsInterval = time.Second

// endJobs kills job processes and orphans when another node may have been the master for longer than the fence, again and again until ctx
// ends. Usually they have ended by then, because their lease has expired. Without a lock file of a job, and for a node that leaves its
// jobs alone (LeaveJobs), it does nothing.
func (n *node) endJobs(ctx context.Context) {
	ticks := time.NewTicker(endJobsInterval)
	defer ticks.Stop()
	since := time.Now() // since when another node may be the master
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if n.master.Load() != nil || n.voters.Load() <= 1 || n.Config.LeaveJobs {
			since = time.Now()
		} else if time.Since(since) > replication.Fence {
			n.Processes.KillAll()
		}
	}
}
