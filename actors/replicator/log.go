package replicator

import (
	"github.com/asynkron/protoactor-go/actor"

	"lockstep/messages"
)

// Log is the consensus log (design.md 9): one order of entries for all nodes,
// of which a majority of the voting nodes has each before it counts. raftlog is the
// real one; logtest holds its contract. Methods do not block and may be called from
// any goroutine; what they bring about arrives as messages at the actor given to
// Attach, in the order in which it comes about.
type Log interface {
	// Attach has all news go to this actor: first LogAttached, with its incarnation,
	// by which it tells them from those for a former one under its name; LogMembersChanged
	// and LogLeaderChanged; then LogCommitted from behind the last entry that was said to
	// be applied, or LogSnapshotReceived from part 1; and LogLeadershipGained, if this node leads, when
	// everything that was committed before is applied. A former actor is told nothing
	// any more.
	Attach(to *actor.PID, incarnation uint32)
	// Propose offers an entry, a messages.LogEntry. It is committed after those
	// that were proposed before by this node, or refused (LogRefused), never both,
	// but for one whose outcome was unknown. number is the caller's.
	Propose(number uint64, entry []byte)
	// Applied says that the entries up to that index are on this node's disk, and
	// what the application remembers besides its files: it goes into snapshots.
	Applied(index uint64, state []byte)
	// Restored says that this part of a snapshot is on the disk.
	Restored(part uint64)
	// Change changes the membership, or hands the leadership over; LogChangeResult
	// answers. Only who leads can.
	Change(number uint64, change Change)
	// Leads is true while it is certain that no other node leads: without contact
	// to a majority that time runs out (the lease) before another can be elected.
	Leads() bool
}

// Peers are the other nodes, for questions about them. Methods do not block.
type Peers interface {
	// Ask asks nodes how they are; messages.NodeStatesCollected brings their answers in that
	// order, or why there is none, after a few seconds at most.
	Ask(number uint64, nodes []*messages.Member, to *actor.PID)
	// Compare asks nodes for digests of the shared files, but for those left out,
	// and brings messages.NodesCompared. What differs because it is on its way is
	// looked at again.
	Compare(number uint64, nodes []*messages.Member, leaveOut []string, to *actor.PID)
}

// Change is one of membership, see messages.ChangeNodes.
type Change struct {
	What    messages.ChangeNodes_What
	Name    string // of the node
	Address string // host:port, where it is added
}
