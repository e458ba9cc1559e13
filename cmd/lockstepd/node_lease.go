package main

import (
	"context"
	"time"

	"lockstep/core/jobproc"
	"lockstep/core/replication"
	"lockstep/edge/peer"
	"lockstep/persistence"
)

// permission says whether job processes need the lease.
func permission(identity *peer.Identity) string {
	if identity == nil {
		return jobproc.LeaseNotRequired
	}
	return jobproc.LeaseRequired
}

// onLeaseRenewed is told until when this node is the master for certain, 0 when it has given
// that up, and tells the processes of its jobs. Where no other node could be the master they need no lease,
// and outlive the daemon; so they do where the operator wants them to.
func (n *node) onLeaseRenewed(until time.Duration) {
	if n.jobsOutliveMastership() {
		until = persistence.Forever
	}
	publish := func() error { return n.lease.Renew(until) }
	if until == 0 {
		publish = n.lease.Expire
	}
	if err := publish(); err != nil {
		n.log.WithField("err", err).Error("running jobs cannot be told that this node is the master; they will end")
	}
}

func (n *node) jobsOutliveMastership() bool { return n.voters.Load() == 1 || n.config.LeaveJobs }

// endJobsInterval is the pause between checks whether this node may have jobs.
const endJobsInterval = time.Second

// endJobs kills job processes and orphans when another node may be the master.
// They have ended by themselves by then, for their lease is over; it does nothing where
// there is no lock file of a job.
func (n *node) endJobs(ctx context.Context) {
	ticks := time.NewTicker(endJobsInterval)
	defer ticks.Stop()
	since := time.Now() // as long as another may be the master
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if n.master.Load() != nil || n.voters.Load() <= 1 || n.config.LeaveJobs {
			since = time.Now()
		} else if time.Since(since) > replication.Fence {
			n.processes.KillAll()
		}
	}
}
