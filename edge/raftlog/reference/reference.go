// Package reference is raft by itself, as the measure of what the queue makes of it: hashicorp/raft with the log store
// and the settings of package raftlog, and nothing between raft and its state machine.
//
// It owns the log below a directory. It may be asked to commit an entry. The log survives a crash, and is of no use
// afterwards: a node is made for one measurement.
package reference

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
)

// Config has the directory, the members and the network of a node of raft alone.
type Config struct {
	Dir     string // of the log; it exists and is empty
	Name    string // one of the names of Members
	Members map[string]string
	Streams raft.StreamLayer
	// Apply is called with committed entries, in their order. Nil: they change nothing.
	Apply func(index uint64, entry []byte) error
}

// leads is how long the nodes may be silent before they elect another leader.
const leads = 2 * time.Second

// Node is one node of the group, in which all members have a vote.
type Node struct {
	raft *raft.Raft
	wal  *wal.WAL
	meta *metadb.BoltMetaDB
}

// Open starts a node. The members elect a leader when a majority of them runs.
func Open(c Config) (*Node, error) {
	n := &Node{meta: &metadb.BoltMetaDB{}}
	var err error
	if n.wal, err = wal.Open(c.Dir, wal.WithMetaStore(n.meta)); err != nil {
		return nil, fmt.Errorf("reference: open the log: %w", err)
	}
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.Name)
	conf.BatchApplyCh = true
	conf.SnapshotThreshold = math.MaxUint64 // a snapshot would only slow it down
	conf.NoLegacyTelemetry = true
	// A measurement needs one leader from begin to end, also beside other work.
	conf.HeartbeatTimeout, conf.ElectionTimeout, conf.LeaderLeaseTimeout = leads, leads, leads
	conf.Logger = hclog.NewNullLogger()
	transport := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  c.Streams,
		MaxPool: 3,
		Timeout: 10 * time.Second,
		Logger:  conf.Logger,
	})
	members := raft.Configuration{}
	for name, address := range c.Members {
		members.Servers = append(members.Servers, raft.Server{
			Suffrage: raft.Voter,
			ID:       raft.ServerID(name),
			Address:  raft.ServerAddress(address),
		})
	}
	snapshots := raft.NewDiscardSnapshotStore()
	if err := raft.BootstrapCluster(conf, n.wal, n.wal, snapshots, transport, members); err != nil {
		return nil, fmt.Errorf("reference: make the cluster: %w", err)
	}
	if n.raft, err = raft.NewRaft(conf, machine{c.Apply}, n.wal, n.wal, snapshots, transport); err != nil {
		return nil, fmt.Errorf("reference: start raft: %w", err)
	}
	return n, nil
}

// Leads reports whether this node is the leader.
func (n *Node) Leads() bool { return n.raft.State() == raft.Leader }

// Commit returns when a majority has the entry and this node, the leader, has applied it.
func (n *Node) Commit(entry []byte) error {
	future := n.raft.Apply(entry, 0)
	if err := future.Error(); err != nil {
		return err
	}
	err, _ := future.Response().(error)
	return err
}

// Close ends the node.
func (n *Node) Close() error {
	return errors.Join(n.raft.Shutdown().Error(), n.wal.Close(), n.meta.Close())
}

// machine is raft's state machine.
type machine struct {
	apply func(uint64, []byte) error
}

// ApplyBatch passes committed entries to Config.Apply. It is part of raft.BatchingFSM.
func (m machine) ApplyBatch(entries []*raft.Log) []any {
	answers := make([]any, len(entries))
	if m.apply == nil {
		return answers
	}
	for i, entry := range entries {
		if entry.Type != raft.LogCommand {
			continue
		}
		if err := m.apply(entry.Index, entry.Data); err != nil {
			answers[i] = err
		}
	}
	return answers
}

// Apply passes a committed entry to Config.Apply. It is part of raft.FSM.
func (m machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

var errNoSnapshots = errors.New("reference: there are no snapshots")

// Snapshot refuses: the reference makes no snapshots. It is part of raft.FSM.
func (machine) Snapshot() (raft.FSMSnapshot, error) { return nil, errNoSnapshots }

// Restore refuses: the reference makes no snapshots. It is part of raft.FSM.
func (machine) Restore(io.ReadCloser) error { return errNoSnapshots }
