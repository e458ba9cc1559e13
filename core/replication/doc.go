// Package replication decides which of a node's files the nodes of a cluster share (design.md "Replication"). From log entries,
// requests, the members and the content of files it computes the changes that a request proposes to the consensus log,
// the changes of this node's files by committed entries, which jobs run on which node, the next change of membership,
// and how long the master's lease lasts. It is pure. The replicator actor carries out the results.
package replication
