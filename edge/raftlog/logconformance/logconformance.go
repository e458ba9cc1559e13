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

// Cluster is where nodes run. Its methods are called by one goroutine.
type Cluster interface {
	// Start runs a node: for the first time, or again with what its log has on its
	// disk.
	Start(name string, o Options) Node
	// Stop ends a node's process, without warning.
	Stop(name string)
	// Wipe empties the disk of a node that is stopped.
	Wipe(name string)
	// Isolate cuts a node off from all others, in both directions.
	Isolate(name string)
	// Heal ends all isolation.
	Heal()
	// Compact has a running node take a snapshot, and drop the entries before it but
	// for the last Trailing ones. It may give them out until it is started again.
	Compact(name string)
	// Trailing is how many entries are kept behind a snapshot, a few dozen.
	Trailing() int
	// Address is where others reach a node, host:port.
	Address(name string) string
	// Until has time pass until done, which it calls often; else it fails the test.
	Until(what string, done func() bool)
}

// Options are those of a node that is started.
type Options struct {
	// Founder begins a cluster, where there is no log yet.
	Founder bool
	// Files is a copy of the application's files, by path, for snapshots.
	Files func() map[string]string
}

// Node is a node that runs.
type Node struct {
	Log replicator.Log
	// Spawn starts an actor there.
	Spawn func(actor.Actor) *actor.PID
	// Tell sends a message to one of these.
	Tell func(to *actor.PID, what any)
}

// Run checks the contract.
func Run(t *testing.T, newCluster func(t *testing.T) Cluster) {
	for _, c := range []struct {
		name string
		run  func(*suite)
	}{
		{"one node commits in order", oneNode},
		{"who is attached anew gets what was not applied", reattach},
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
			s := &suite{T: t, cluster: newCluster(t), applications: map[string]*application{}, oracle: newOracle()}
			c.run(s)
			s.reportViolations()
		})
	}
}
