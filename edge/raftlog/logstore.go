package raftlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/metadb"
	"golang.org/x/sys/unix"

	"lockstep/messages"
)

// termKey is where raft keeps the current term.
const termKey = "CurrentTerm"

// logStore is what a node's raft remembers.
type logStore struct {
	wal       *wal.WAL
	meta      *metadb.BoltMetaDB // of wal, which does not close it
	lock      *os.File
	snapshots *snapshotStore
}

func (s *logStore) close() error {
	if err := errors.Join(s.wal.Close(), s.meta.Close(), s.lock.Close()); err != nil {
		return fmt.Errorf("closing the log: %w", err)
	}
	return nil
}

// openLogStore opens it, or makes it.
func openLogStore(c *Config) (*logStore, error) {
	name := filepath.Join(c.Dir, "wal")
	if err := os.MkdirAll(name, 0o700); err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	lock, err := lockDir(c.Dir)
	if err != nil {
		return nil, err
	}
	d := &logStore{lock: lock, meta: &metadb.BoltMetaDB{}}
	if d.snapshots, err = openSnapshotStore(filepath.Join(c.Dir, "snapshots"), c.Freeze); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	if d.wal, err = wal.Open(name, wal.WithLogger(newLogger(c.Log)), wal.WithMetaStore(d.meta)); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the log %s: %w", name, err), d.meta.Close(), lock.Close())
	}
	return d, nil
}

// lockDir keeps other processes from the log, for as long as the file is open.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("opening the log %s: another process has it open; stop the daemon first: %w", dir, err)
	}
	return lock, nil
}

// bootstrap makes this node the only voter of a new cluster if it has no log.
//
// Its files are from before the log. So the log does not begin with the membership,
// as raft would have it, but behind a snapshot that holds that: whoever joins gets
// the files first. A single file on the disk, so it is done or not.
func (s *logStore) bootstrap(c *Config) (bootstrapped bool, err error) {
	last, err := s.wal.LastIndex()
	if err != nil {
		return false, fmt.Errorf("opening the log: %w", err)
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

// repair finishes what a crash has interrupted between the snapshots and the log, and
// checks that the one continues the other.
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
		return fmt.Errorf("opening the log: %w", err)
	}
	first, last, err := s.indexRange()
	if err != nil || last == 0 {
		return err
	}
	// A snapshot that is received replaces all of the log, which then goes on behind it.
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
		return 0, 0, fmt.Errorf("opening the log: %w", err)
	}
	return first, last, nil
}

// Members are those of the latest membership in a node's log, committed or not. The
// node must not run.
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

// members are those of the latest membership, as raft will find it: in the entries
// behind the newest snapshot, or there.
func (s *logStore) members() ([]*messages.Member, error) {
	first, last, err := s.indexRange()
	if err != nil {
		return nil, err
	}
	n, found := s.snapshots.newest()
	for index := last; index > n.Index && index >= first; index-- {
		var entry raft.Log
		if err := s.wal.GetLog(index, &entry); err != nil {
			return nil, fmt.Errorf("opening the log: %w", err)
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

// Recover makes this node the only voter, after the majority has been lost for good.
// It must not run. All entries in its log are committed when it runs again, also those
// that never had a majority. Other nodes of the old cluster must be emptied before
// they are added again: their logs may differ from this one.
//
// The new membership is an entry at the end of the log, of a new term. (Raft's own
// RecoverCluster would apply the entries here, where nobody is attached.)
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
