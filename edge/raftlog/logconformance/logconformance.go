// Package logconformance is the test suite of the port replicator.Log. Raft over real
// connections and the simulator's model of it must both pass it.
//
// The suite runs the application on every node. Throughout a test an oracle checks that no
// index has two entries and no entry two indexes, that no two nodes lead at the same time,
// and that an entry that was refused for certain is never committed. The suite neither
// sleeps nor reads a clock: Cluster.Until lets time pass.
package logconformance

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"lockstep/actors/replicator"
)

// Cluster is an environment in which nodes run. One goroutine calls its methods.
type Cluster interface {
	// Start runs a node for the first time, or again with its disk.
	Start(name string, o Options) Node
	// Stop ends a node's process at once.
	Stop(name string)
	// Wipe empties the disk of a node that is stopped.
	Wipe(name string)
	// Isolate cuts a node off from all others, in both directions.
	Isolate(name string)
	// Heal ends all isolation.
	Heal()
	// Compact makes a running node take a snapshot, and drop the entries before it but the last
	// Trailing ones. The node may still send the dropped entries until it is started again.
	Compact(name string)
	// Trailing is the number of entries kept before a snapshot, a few dozen.
	Trailing() int
	// Address is the address of a node, host:port.
	Address(name string) string
	// Until lets time pass until done reports true, which it calls often. After too long it fails
	// the test.
	Until(what string, done func() bool)
}

// Options are the options of a node's start.
type Options struct {
	// Founder creates the cluster if there is no log yet.
	Founder bool
	// Files returns a copy of the application's files, by path, for snapshots.
	Files func() map[string]string
}

// Node is a running node.
type Node struct {
	Log replicator.Log
	// Spawn starts an actor on the node.
	Spawn func(actor.Actor) *actor.PID
	// Tell sends a message to an actor of the node.
	Tell func(to *actor.PID, what any)
}

// Run runs the suite of the log's promises. Each test has a cluster of its own, which newCluster makes.
func Run(t *testing.T, newCluster func(t *testing.T) Cluster) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"one node commits in order", oneNode},
		{"who is attached anew gets what was not applied", reattach},
		{"entries are given before earlier ones are on the disk", givesAhead},
		{"three nodes agree", threeAgree},
		{"a follower refuses for certain", followerRefuses},
		{"an isolated leader commits nothing", isolatedLeader},
		{"leadership is lost during a batch", lostDuringBatch},
		{"a leader has applied everything before it leads", leadsWhenApplied},
		{"a new node gets the files from before the log", newNode},
		{"a snapshot begins again for who is attached anew", attachDuringRestore},
		{"a snapshot goes on after a crash", crashDuringRestore},
		{"a wiped node gets everything", wipedNode},
		{"who was away for long gets a snapshot", catchUpBySnapshot},
		{"membership", membership},
		{"leadership is handed over", transferLeadership},
		{"a restart of all nodes keeps everything", restartAll},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // real nodes mostly wait
			s := &suite{T: t, cluster: newCluster(t), applications: map[string]*application{}, oracle: newOracle()}
			c.run(s)
			s.reportViolations()
		})
	}
}
