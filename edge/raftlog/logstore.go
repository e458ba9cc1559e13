package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"github.com/hashicorp/raft-wal/metrics"
	"golang.org/x/sys/unix"

	"lockstep/messages"
)

// termKey is the key of the current term in raft's stable store.
const termKey = "CurrentTerm"

// logStore is the durable state of raft on this node: the log, the term, the vote and the
// snapshots.
type logStore struct {
	wal       *wal.WAL
	meta      *metadb.BoltMetaDB // of wal, which does not close it
	counters  *metrics.AtomicCollector
	lock      *os.File
	snapshots *snapshotStore
}

func (s *logStore) close() error {
	if err := errors.Join(s.wal.Close(), s.meta.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("closing the log: %w", err)
	}
	return nil
}

// written are the entries that were added to the log since it was opened, and the appends that they took. Each append ends with one
// sync.
func (s *logStore) written() (entries, appends uint64) {
	counters := s.counters.Summary().Counters
	return counters["log_entries_written"], counters["log_appends"]
}

// openLogStore opens the store, or creates it.
func openLogStore(c *Config) (*logStore, error) {
	name := filepath.Join(c.Dir, "wal")
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("opening the consensus log: %w", err)
	}
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, err
	}
	d := &logStore{lock: lock, meta: &metadb.BoltMetaDB{}, counters: metrics.NewAtomicCollector(wal.MetricDefinitions)}
	if d.snapshots, err = openSnapshotStore(filepath.Join(c.Dir, "snapshots"), c.Freeze); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if d.wal, err = wal.Open(name, wal.WithLogger(newLogger(c.Log)), wal.WithMetaStore(d.meta),
		wal.WithSegmentSize(c.Retention.Segment), wal.WithMetricsCollector(d.counters)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the consensus log %s: %w", name, err), d.meta.Close(), lock.Close())
	}
	return d, nil
}

// lockDir locks the directory of a log against other processes until the file is closed. The error says if another process has it.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the consensus log: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("opening the consensus log %s: another process has it open; stop the daemon first: %w", dir, err)
	}
	return lock, nil
}

// bootstrap makes this node the only voter of a new cluster if it has no log.
//
// The node's files are older than the log. So the log begins behind a snapshot that holds the
// membership, and not, as raft would do it, with an entry of the membership: a node that joins
// gets the files first. The snapshot is one file on the disk, so that the step is atomic.
func (s *logStore) bootstrap(c *Config) (bootstrapped bool, err error) {
	last, err := s.wal.LastIndex()
	if err != nil {
		return false, fmt.Errorf("opening the consensus log: %w", err)
	}
	if _, any := s.snapshots.newest(); any || last > 0 || !c.Founder {
		return false, nil
	}
	begin, err := s.snapshots.Create(raft.SnapshotVersionMax, 1, 1, soleVoter(c), 1, nil)
	if err == nil {
		err = begin.Close()
	}
	if err != nil {
		return false, fmt.Errorf("founding a cluster: %w", err)
	}
	return true, nil
}

func soleVoter(c *Config) raft.Configuration {
	return raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raft.ServerID(c.Name), Address: raft.ServerAddress(c.Address)}}}
}

// repair completes a change of snapshots and log that a crash has interrupted, and checks that the log continues the newest snapshot.
// Missing entries are an error.
func (s *logStore) repair() error {
	n, found := s.snapshots.newest()
	if !found {
		first, _, err := s.indexRange()
		if err == nil && first > 1 {
			err = missingEntries(first, 0)
		}
		return err
	}
	term, err := s.wal.GetUint64([]byte(termKey))
	if err == nil && term < n.Term {
		err = s.wal.SetUint64([]byte(termKey), n.Term)
	}
	if err != nil {
		return fmt.Errorf("opening the consensus log: %w", err)
	}
	first, last, err := s.indexRange()
	if err != nil || last == 0 {
		return err
	}
	// A received snapshot replaces all of the log, which continues behind it.
	if n.Received && first <= n.Index || last < n.Index {
		if err := s.wal.DeleteRange(first, last); err != nil {
			return fmt.Errorf("removing a log that a snapshot has replaced: %w", err)
		}
		return nil
	}
	if first > n.Index+1 {
		return missingEntries(first, n.Index)
	}
	return nil
}

func missingEntries(first, last uint64) error {
	return fmt.Errorf("the log begins at entry %d, but the last snapshot ends at %d: a part is missing; "+
		"remove the raft directory, and add this node again", first, last)
}

func (s *logStore) indexRange() (first, last uint64, err error) {
	first, err = s.wal.FirstIndex()
	if err == nil {
		last, err = s.wal.LastIndex()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("opening the consensus log: %w", err)
	}
	return first, last, nil
}

// Members returns the latest membership in a node's log, committed or not. The node must not
// run.
func Members(config Config) (members []*messages.Member, err error) {
	if err := config.normalize(); err != nil {
		return nil, err
	}
	d, err := openLogStore(&config)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return d.members()
}

// members returns the latest membership, as raft will find it: in the entries behind the
// newest snapshot, or in that snapshot.
func (s *logStore) members() ([]*messages.Member, error) {
	first, last, err := s.indexRange()
	if err != nil {
		return nil, err
	}
	n, found := s.snapshots.newest()
	for index := last; index > n.Index && index >= first; index-- {
		var entry raft.Log
		if err := s.wal.GetLog(index, &entry); err != nil {
			return nil, fmt.Errorf("opening the consensus log: %w", err)
		}
		if entry.Type == raft.LogConfiguration {
			return membersOf(raft.DecodeConfiguration(entry.Data)), nil
		}
	}
	if !found {
		return nil, nil
	}
	return membersOf(n.Configuration), nil
}

// lastCommand returns the index of the last proposal behind the newest snapshot; 0: there is none.
func (s *logStore) lastCommand() (uint64, error) {
	first, last, err := s.indexRange()
	n, _ := s.snapshots.newest()
	for index := last; err == nil && index > n.Index && index >= first; index-- {
		var entry raft.Log
		if err = s.wal.GetLog(index, &entry); err == nil && entry.Type == raft.LogCommand {
			return index, nil
		}
	}
	if err != nil {
		return 0, fmt.Errorf("opening the consensus log: %w", err)
	}
	return 0, nil
}

// Recover makes this node the only voter, after the majority was lost permanently. The node
// must not run. When it runs again, all entries in its log are committed, also those that
// never had a majority. Other nodes of the old cluster must be emptied before they are added
// again, because their logs may differ from this one.
//
// The new membership is an entry of a new term at the end of the log. (Raft's own
// RecoverCluster would apply the entries now, when no actor is attached.)
func Recover(config Config) (err error) {
	if err := config.normalize(); err != nil {
		return err
	}
	d, err := openLogStore(&config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.repair(); err != nil {
		return err
	}
	entry := raft.Log{Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(soleVoter(&config))}
	if n, found := d.snapshots.newest(); found {
		entry.Index, entry.Term = n.Index, n.Term
	}
	term, err := d.wal.GetUint64([]byte(termKey))
	if err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	_, last, err := d.indexRange()
	if err != nil {
		return err
	}
	if entry.Index == 0 && last == 0 {
		return fmt.Errorf("recovering: %w", ErrNoState)
	}
	entry.Index = max(entry.Index, last) + 1
	entry.Term = max(entry.Term, term) + 1
	if err := d.wal.SetUint64([]byte(termKey), entry.Term); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	if err := d.wal.StoreLog(&entry); err != nil {
		return fmt.Errorf("recovering: %w", err)
	}
	return nil
}
