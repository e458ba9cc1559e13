package replication

import (
	"time"

	"lockstep/core/jobproc"
)

// Times between nodes (design.md 9). Their order prevents two nodes from working at the same time:
//
//	Lease < ElectionMin                       the former master stops before another is elected
//	LeaseProbe + LeaseGrace + a margin <= Fence   (package jobproc)  and its jobs have ended before others start
const (
	// Lease is how long a node stays the master after its last message from a majority.
	Lease = 750 * time.Millisecond
	// ElectionMin is the shortest time without messages from the master after which a node becomes a candidate or votes
	// for a candidate.
	ElectionMin = time.Second
	// Fence is how long a new master waits before it starts a job or grants a lock, if jobs ran on another node.
	Fence = jobproc.Fence
)
