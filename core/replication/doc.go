// Package replication decides which of a node's files the nodes of a cluster share (design.md 9). It returns the
// changes that a request proposes to the consensus log, what committed entries do to the files of this node, which
// jobs run on which node, the next change of membership, and how long the master's lease lasts. It is given log
// entries, requests, the members and the content of files. It is pure; the replicator acts on what it returns.
package replication
