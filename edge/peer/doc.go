// Package peer is how the nodes of a cluster know one another: a node's identity
// and certificates, the way into a cluster, and the one port at which nodes talk.
//
// It is an edge, not an actor. What is consensus goes through it as connections
// (Listener.Raft); who is a member, and what a node has to tell, it asks its
// Backend.
//
// A cluster has a certificate authority of its own. Every node holds its
// certificate, by which it knows the others, and its key, by which it admits
// others: no node is special, and the first may be lost. So who has the disk of one
// node can make himself a member, and who has a join token can for as long as it is
// good. A node that was removed keeps its certificate; the others refuse it by name
// (Listener.SetMembers).
//
// Files, in <data directory>/raft, which only its owner may read:
//
//	node.json    who this node is (Identity); a node without it is of no cluster
//	ca.pem       certificate of the cluster, ca.key its key
//	node.pem     certificate of this node, node.key its key
//	tokens.json  hashes of the join tokens that were made here, and when they expire
//	recover      a wish for the next start of the daemon, see Recover
//
// Each is replaced as a whole, and node.json is written last: a crash leaves a node
// that belongs to the cluster or to none.
package peer
