// Package raftlog is the consensus log of the replicator: hashicorp/raft behind the port
// replicator.Log (design.md "Replication").
//
// It owns the log of this node and the lease: the time for which this node is certain to be
// the only leader. The replicator may propose entries, acknowledge applied entries and
// parts of snapshots, and change the membership. The bridge sends all news to the replicator
// as messages.
//
// The files below the data directory are the replicated state. So a snapshot taken on this
// node is only a record of an index, the membership and the application's state. A snapshot
// sent to another node holds files, which the application freezes for it. The log and the
// records are below Config.Dir, and survive a crash:
//
//	wal/                 raft-wal: the entries, the term and the vote
//	snapshots/*.json     records of snapshots, two are kept
//	snapshots/*.data     a received snapshot that is not applied yet
//
// Entries that were proposed and not yet given to raft are lost with the process.
package raftlog

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/sirupsen/logrus"

	"lockstep/core/replication"
)

// Config has the directory, the addresses and the limits of a node's consensus log.
type Config struct {
	// Dir holds the log and the notes of snapshots; it is made where it is missing,
	// for this user alone.
	Dir string
	// Name is the node's name. No other node of the cluster ever has the same.
	Name string
	// Address is host:port, where other nodes reach this one.
	Address string
	// Founder creates a cluster whose only voter is this node, if there is no log yet.
	Founder bool
	// Streams connects nodes. It is closed with the log.
	Streams raft.StreamLayer
	// System is the actor system of the attached actors.
	System *actor.ActorSystem
	// Log gets raft's log lines, one level lower than raft's.
	Log *logrus.Logger
	// Freeze makes a consistent copy of the shared files, for a snapshot that is sent.
	// The copy holds the effects of all entries up to the snapshot, and may hold those of
	// later ones. The log's goroutines call it.
	Freeze func() (Frozen, error)
	// Sync makes durable all shared files as they are. The
	// log calls it before it records a snapshot: what entries have changed up to then is in no entry
	// that will be applied again. It also calls it before and after it restores a received snapshot. Calls do not overlap. After an error the
	// log calls it no more, records no snapshot, and calls Failed: the kernel may have dropped what it could not write, so that a second sync
	// could succeed without it. Nil: nothing is to be done.
	Sync func() error
	// Noting is called after Sync and before the log records that the shared files contain all entries up to an index, so that an older copy
	// of them can be told from them. After an error the log does not record it. Calls do not overlap. Nil: nothing is to be done.
	Noting func(index uint64) error
	// LeaseRenewed is called with the end of the lease, in time of CLOCK_BOOTTIME; 0: the
	// lease is revoked. Calls do not overlap. The function must return at once and call no
	// method of the log. Nil: it is not called.
	LeaseRenewed func(until time.Duration)
	// Urgent reports whether a majority of the nodes must know that an entry is committed before the leader applies it. So they apply it
	// although the leader dies when it has applied it. They learn of the commit of another entry with the next one, or up to a tenth
	// of a second later, and not before the next election if the leader dies. The log's goroutines call it. Nil: no entry is urgent.
	Urgent func(entry []byte) bool
	// Failed is called if raft cannot be started after Open has returned, or if Sync has failed: the daemon
	// should end. The next start applies the entries since the last snapshot to new files. Nil: the error is only logged.
	Failed func(error)
	// Timing is the timing of elections in a term whose leader has declared no times.
	Timing Timing
	// Shortest are the shortest times that this node uses where a leader has declared them (times.go). 0: those of Timing.
	Shortest replication.Times
	// Retention says how much of the log is kept.
	Retention Retention
}

// Timing is the timing of elections. It must be the same on all nodes, and in all versions.
type Timing struct {
	// Heartbeat is how long a node waits for a message of the leader before it starts an
	// election. Until then it votes for no other node. 0: 1 s.
	Heartbeat time.Duration
	// Election is how long a candidate waits for votes, at least Heartbeat. 0: 1 s.
	Election time.Duration
	// Lease is how long a leader is certain to be the only one after a majority has heard
	// from it. It is less than Heartbeat by more than the drift of clocks in that time.
	// 0: 750 ms.
	Lease time.Duration
}

// Retention says what is kept of the log, and how often that is looked at.
//
// The log holds at most Trailing entries, Threshold more, and those of twice Interval and of the time of a snapshot, whether or not
// another node lacks them. Its files hold these and up to two times Segment more: entries are removed by whole files, and the
// newest file has its whole size from the beginning.
type Retention struct {
	// Trailing is how many entries before a snapshot are kept. A node that lacks more
	// entries gets all files. 0: 10240.
	Trailing uint64
	// Threshold is after how many entries there is a new snapshot. 0: 2000.
	Threshold uint64
	// Interval is how often entries are counted, at random between once and twice
	// that. 0: 10 s.
	Interval time.Duration
	// Segment is the size of a file of the log, in bytes. 0: 64 MiB.
	Segment int
}

// Frozen is a consistent copy of the shared files, for a snapshot that is sent to another node.
type Frozen interface {
	// Files lists them, in the order in which they are sent.
	Files() []FrozenFile
	// Open reads one of them, exactly as many bytes as listed.
	Open(path string) (io.ReadCloser, error)
	// Close ends the copy.
	Close() error
}

// FrozenFile is the path and the size of one shared file that is sent to another node.
type FrozenFile struct {
	Path string // below the data directory
	Size int64  // bytes, at most MaxFile
}

// MaxEntry is how large a proposed entry may be, in bytes. Raft sends up to 64 entries
// at a time.
const MaxEntry = 32 << 20

// MaxFile is how large a file in a snapshot may be, in bytes.
const MaxFile = 256 << 20

// ErrNoState is returned by Recover if there is no log to recover.
var ErrNoState = errors.New("there is no log here: found a cluster, or join one")

func (c *Config) normalize() error {
	defaultDuration(&c.Timing.Heartbeat, time.Second)
	defaultDuration(&c.Timing.Election, max(time.Second, c.Timing.Heartbeat))
	defaultDuration(&c.Timing.Lease, c.Timing.Heartbeat*3/4)
	defaultDuration(&c.Shortest.Heartbeat, c.Timing.Heartbeat)
	defaultDuration(&c.Shortest.Lease, c.Timing.Lease)
	defaultDuration(&c.Retention.Interval, 10*time.Second)
	if c.Retention.Trailing == 0 {
		c.Retention.Trailing = 10240
	}
	if c.Retention.Threshold == 0 {
		c.Retention.Threshold = 2000
	}
	if c.Retention.Segment == 0 {
		c.Retention.Segment = wal.DefaultSegmentSize
	}
	if c.LeaseRenewed == nil {
		c.LeaseRenewed = func(time.Duration) {}
	}
	if c.Sync == nil {
		c.Sync = func() error { return nil }
	}
	if c.Noting == nil {
		c.Noting = func(uint64) error { return nil }
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	switch {
	case c.Dir == "" || c.Name == "" || c.Address == "":
		return errors.New("replication: directory, name and address of the node are all needed")
	case c.Timing.Lease >= c.Timing.Heartbeat:
		return fmt.Errorf("replication: the lease (%v) must be shorter than the heartbeat timeout (%v)",
			c.Timing.Lease, c.Timing.Heartbeat)
	case c.Shortest.Lease >= c.Shortest.Heartbeat || c.Shortest.Heartbeat > c.Timing.Heartbeat || c.Shortest.Lease > c.Timing.Lease:
		return fmt.Errorf("replication: the shortest lease (%v) must be shorter than the shortest heartbeat timeout (%v), "+
			"and neither may be longer than %v and %v",
			c.Shortest.Lease, c.Shortest.Heartbeat, c.Timing.Lease, c.Timing.Heartbeat)
	case c.Timing.Election < c.Timing.Heartbeat:
		return fmt.Errorf("replication: the election timeout (%v) must not be shorter than the heartbeat timeout (%v)",
			c.Timing.Election, c.Timing.Heartbeat)
	}
	return nil
}

func defaultDuration(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

// rpcTimeout is how long another node may take to answer.
func (c *Config) rpcTimeout() time.Duration { return 10 * c.Timing.Heartbeat }

func (c *Config) raftConfig(leadership chan<- bool) *raft.Config {
	conf := raft.DefaultConfig()
	conf.LocalID = raft.ServerID(c.Name)
	conf.HeartbeatTimeout = c.Timing.Heartbeat
	conf.ElectionTimeout = c.Timing.Election
	// Raft cannot change this one while it runs, and refuses a shorter heartbeat timeout. Raft ends a leadership by it; the lease that
	// counts is that of lease.go.
	conf.LeaderLeaseTimeout = min(c.Timing.Lease, c.Shortest.Heartbeat)
	conf.CommitTimeout = min(conf.CommitTimeout, c.Timing.Heartbeat/10)
	conf.BatchApplyCh = true
	conf.ShutdownOnRemove = false
	conf.TrailingLogs = c.Retention.Trailing
	conf.SnapshotThreshold = c.Retention.Threshold
	conf.SnapshotInterval = c.Retention.Interval
	conf.NoSnapshotRestoreOnStart = true
	conf.NoLegacyTelemetry = true
	conf.NotifyCh = leadership
	conf.Logger = newLogger(c.Log)
	return conf
}
