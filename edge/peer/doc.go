// Package peer connects the nodes of a cluster. It owns a node's identity and
// certificates, the join of a new node, and the one port at which nodes talk to each other.
//
// It is an edge, not an actor. The consensus log takes its connections from Listener.Raft,
// the LUXI gateway from Listener.Luxi, the socket for output from Listener.Output. Questions about membership and about this node go to
// the Backend.
//
// Each cluster has its own certificate authority. Every node holds the authority's
// certificate, by which it verifies other nodes, and the authority's key, by which it admits
// new nodes. So no node is special, and the loss of the first node does no harm. An attacker
// who reads the disk of one node can admit nodes, and so can the holder of a join token until
// the token expires. A removed node keeps its certificate; the other nodes refuse it by name
// (Listener.SetMembers).
//
// Files in <data directory>/raft, readable by their owner only:
//
//	node.json    who this node is (Identity); a node without it belongs to no cluster
//	ca.pem       certificate of the cluster, ca.key its key
//	node.pem     certificate of this node, node.key its key
//	tokens.json  hashes of the join tokens made on this node, and when they expire
//	recover      a request to the next start of the daemon, see RequestRecovery
//
// Init also makes the key of queries about the configuration, hmac.key in the data directory, and Join gets it (confdkey.go).
//
// All of these files survive a crash. Each is replaced atomically, and node.json is written
// last: after a crash in between, the node belongs to the cluster or to none.
package peer
