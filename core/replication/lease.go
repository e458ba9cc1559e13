package replication

import (
	"time"

	"lockstep/core/jobproc"
)

// How long things last between nodes (design.md 9). Their order is what keeps
// two nodes from working at the same time:
//
//	Lease < ElectionMin                       the former master stops before another is elected
//	LeaseProbe + LeaseGrace + a margin <= Fence   (package jobproc)  and its jobs have ended before others start
const (
	// Lease is how long after its last word from a majority the master is one.
	Lease = 750 * time.Millisecond
	// ElectionMin is the least time for which a node hears nothing of the master before
	// it becomes a candidate, or votes for one.
	ElectionMin = time.Second
	// Fence is how long a new master waits before it starts a job, or grants a lock,
	// where jobs ran on another node.
	Fence = jobproc.Fence
)
