package distribution

import (
	"time"

	"lockstep/core/config/model"
)

// Role is the role of a node in the cluster.
type Role string

// Roles, in the order of their precedence.
const (
	Master    Role = "master"
	Offline   Role = "offline"
	Candidate Role = "candidate"
	Drained   Role = "drained"
	Regular   Role = "regular"
)

// NodeState says what a node has, and why it has no more.
type NodeState struct {
	UUID, Name, Address string
	Role                Role
	ConfigFile, Ssconf  FileState
}

// FileState is what a node has of a kind.
type FileState struct {
	Wanted  bool   // the node is to get the kind; if false, the other fields are zero
	Serial  int64  // of the newest configuration that the node has acknowledged; 0: none since the start, or since a failure
	Behind  uint64 // number of configurations since that one, and since the start if there is none; 0: the node is current
	Sending bool   // a call is in progress

	Failures int   // calls that have failed since the last success
	Err      error // of the last failed call; nil if Failures is 0
	FailedAt time.Time
	RetryAt  time.Time // earliest time of the next call; zero if Failures is 0
}

// State returns the states of the nodes by uuid, and the serial number of the newest configuration; 0: there is none.
func (t *Tracker) State() (nodes []NodeState, serial int64) {
	if t.config == nil {
		return nil, 0
	}
	for _, n := range t.nodes {
		nodes = append(nodes, NodeState{n.uuid, n.Name, n.PrimaryIP, roleOf(n, t.config),
			t.fileState(target{n.uuid, ConfigFile}), t.fileState(target{n.uuid, Ssconf})})
	}
	return nodes, t.config.Serial
}

func roleOf(n node, c *model.Config) Role {
	switch {
	case n.uuid == c.Cluster.Value.MasterNode:
		return Master
	case n.Offline:
		return Offline
	case n.MasterCandidate:
		return Candidate
	case n.Drained:
		return Drained
	}
	return Regular
}

func (t *Tracker) fileState(at target) FileState {
	r := t.records[at]
	if r == nil || !r.wanted {
		return FileState{}
	}
	s := FileState{
		Wanted:   true,
		Behind:   t.version,
		Sending:  r.call != 0,
		Failures: r.failures,
		Err:      r.err,
		FailedAt: r.failedAt,
		RetryAt:  r.retryAt,
	}
	if r.acked != 0 {
		s.Serial, s.Behind = r.ackedSerial, t.version-r.ackedVersion
	}
	return s
}
