package replicator

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/core/replication"
	"lockstep/messages"
)

// Log is the consensus log (design.md "Engine"): one order of entries for all nodes. An entry
// is committed when a majority of the voting nodes has it. Package raftlog implements
// it; package logconformance tests the contract. Methods do not block and may be called
// from any goroutine; their results arrive as messages at the actor given to Attach, in
// the order in which they happen.
type Log interface {
	// Attach sends all messages to this actor from now on: first LogAttached with the
	// incarnation, by which the actor tells them from messages for an earlier one; then
	// LogMembersChanged and LogLeaderChanged; then LogCommitted from the first entry that
	// is not applied, or LogSnapshotReceived from part 1. LogLeadershipGained follows, if
	// this node leads, when everything that was committed before is applied. An actor that
	// was attached before receives no further message.
	//
	// LogCommitted does not wait until earlier entries are applied. The log waits before an
	// actor has some hundred that are not, before a snapshot and before LogLeadershipGained.
	Attach(to *actor.PID, incarnation uint32)
	// Propose offers an entry, an encoded messages.LogEntry. The entry is committed after
	// the ones that this node has proposed before, or LogRefused says that it is not. An
	// entry may be both only if LogRefused calls its outcome unknown. number is chosen by
	// the caller.
	Propose(number uint64, entry []byte)
	// Applied says that the entries up to index are on this node's disk. state is what the
	// caller must be given again after a restart; it becomes part of snapshots.
	Applied(index uint64, state []byte)
	// Restored says that this part of a snapshot is on the disk.
	Restored(part uint64)
	// Change changes the membership, or hands the leadership over; LogChangeResult
	// answers. It fails unless this node leads.
	Change(number uint64, change Change)
	// SetTimes says that the leader of a term has declared these times. If this node leads in that term, its lease is not longer from
	// now until that leadership ends, and no call makes it longer. This node's heartbeat timeout is that of the declaration, or the
	// shortest that it knows, from now until it acknowledges a message of another term's leader. The leader calls SetTimes before it
	// proposes the declaration, and each node when it has applied that.
	SetTimes(term uint64, t replication.Times)
	// Leads is true while it is certain that no other node leads: without contact to a
	// majority it becomes false, after the lease, before another node can be elected.
	Leads() bool
}

// Peers is the port through which the replicator asks the other nodes for their state and files. Methods do not block.
type Peers interface {
	// Ask asks nodes for their state. messages.NodeStatesCollected has the answers, or why
	// there is none, in the order of nodes, after a few seconds at most.
	Ask(number uint64, nodes []*messages.Member, to *actor.PID)
	// Compare asks nodes for digests of the shared files except leaveOut;
	// messages.NodesCompared answers. A file that differs is compared again, since a change
	// of it may be on its way.
	Compare(number uint64, nodes []*messages.Member, leaveOut []string, to *actor.PID)
}

// Change is one change of the members of the cluster, or of its leader, which the log is asked to make: see messages.ChangeNodes.
type Change struct {
	What    messages.ChangeNodes_What
	Name    string // of the node
	Address string // host:port of a node that is added; otherwise ""
}
