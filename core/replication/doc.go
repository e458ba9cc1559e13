// Package replication decides what of a node's files its cluster shares (design.md
// 9): which changes are proposed to the consensus log, what an entry that was
// committed does to the files of this node, who votes, and how long who leads may
// be sure of it. Pure; the replicator acts on it.
package replication
