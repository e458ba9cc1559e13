// Package confd answers queries about the cluster configuration in the protocol of Ganeti's configuration daemon (confd.md). It
// reads a datagram, checks its signature and time, and writes the answer; it also makes queries and reads their answers.
//
// A Responder turns a datagram into an answer or into silence. It needs the keys (Keys), the time, and a configuration (Snapshot).
// Secrets of the configuration are never in an answer. The package is pure: sockets are package edge/confd, and the snapshot is
// kept by the actor of package actors/config/confd.
package confd

// Limits of datagrams in bytes (confd.md 2).
const (
	// DatagramMax is the longest datagram that clients send and receive. A longer request is dropped, and a longer answer is
	// replaced by an error.
	DatagramMax = 61440
	// packetMin is the length of the shortest datagram that can be a request.
	packetMin = len(magic) + 2
)

// ClockSkewMax is the greatest difference in seconds between the time in a request and the time of the server.
const ClockSkewMax = 300

// Type is the type of a query (confd.md 3).
type Type int

// The types of queries.
const (
	Ping Type = iota
	NodeRoleByName
	NodePrimaryIPByInstanceIP
	ClusterMaster
	NodePrimaryIPs
	CandidatePrimaryIPs
	InstanceIPs
	NodeDRBD
	NodeInstances
	InstanceDisks
	ConfigPath
	DataCollectors

	types = iota
)

// Roles of nodes, the answers to NodeRoleByName.
const (
	RoleMaster = iota
	RoleCandidate
	RoleOffline
	RoleDrained
	RoleRegular
)

// Statuses of answers.
const (
	StatusOK    = 0
	StatusError = 1
)

// Codes of errors: the answer with StatusError is one of these numbers, or a text.
const (
	CodeUnknownEntry = 0
	CodeArgument     = 2
)

// Outcome is what a Responder has done with a datagram. All but Served and Refused are silence.
type Outcome uint8

// The outcomes.
const (
	Served           Outcome = iota // with status 0
	Refused                         // with status 1: it is well-formed and cannot be served
	DroppedPacket                   // it is no request: magic, envelope, encoding, length
	DroppedSignature                // it is signed with no valid key
	DroppedClock                    // it is signed, and its time is too far from this node's
	DroppedRequest                  // it is signed, and the request in it is malformed
	DroppedNoKey                    // this node has no key yet
	DroppedReplay                   // it is signed, and was answered often enough, or to another address

	outcomes = iota
)

var outcomeNames = [outcomes]string{"served", "refused", "packet", "signature", "clock", "request", "no-key", "replay"}

// String returns a word of lower-case letters and dashes.
func (o Outcome) String() string { return outcomeNames[o] }

// IsForged reports whether the sender has not shown that it has the key. The sender of a replay has not: it may have captured the request.
func (o Outcome) IsForged() bool {
	return o == DroppedPacket || o == DroppedSignature || o == DroppedNoKey || o == DroppedReplay
}

// Outcomes returns all outcomes in ascending order.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}
