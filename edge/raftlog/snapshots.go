package raftlog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/raft"

	"lockstep/persistence"
)

// recordsMax is the number of snapshot records that are kept.
const recordsMax = 2

// snapshotRecord is the part of a snapshot that is not in the replicated files. Its fields
// are the keys of the JSON on the disk.
type snapshotRecord struct {
	ID                 string
	Sequence           uint64
	Version            raft.SnapshotVersion
	Index              uint64
	Term               uint64
	Configuration      raft.Configuration
	ConfigurationIndex uint64
	State              []byte // the application's state
	// Received says that another node sent the snapshot, and that it replaced the log up
	// to Index.
	Received bool
	// Pending says that the snapshot is received completely, in ID.data, and not applied
	// completely: the application's files are a mixture of old and new ones.
	Pending bool
}

func (n *snapshotRecord) meta(size int64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{Version: n.Version, ID: n.ID, Index: n.Index, Term: n.Term,
		Configuration: n.Configuration, ConfigurationIndex: n.ConfigurationIndex, Size: size}
}

// snapshotStore is raft's SnapshotStore. A snapshot taken on this node is a record only. Its
// files are the application's, which are frozen when the snapshot is opened to be sent.
type snapshotStore struct {
	dir    string
	freeze func() (Frozen, error)
	// renew takes a snapshot on this node. nil: the newest one is sent as it is.
	renew func() error

	mu      sync.Mutex
	records []snapshotRecord // the newest first
	// received is the snapshot whose data is on the disk and whose record is not; nil: none. See recordReceived.
	received *snapshotRecord
}

func openSnapshotStore(dir string, freeze func() (Frozen, error)) (*snapshotStore, error) {
	s := &snapshotStore{dir: dir, freeze: freeze}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("opening the snapshots: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the snapshots: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json") {
			if err := s.load(entry.Name()); err != nil {
				return nil, err
			}
		}
	}
	s.sort()
	for _, entry := range entries {
		// The process ended while it received this snapshot.
		id, data := strings.CutSuffix(entry.Name(), ".data")
		// Former versions wrote records under a temporary name that ends in .new.
		unfinished := persistence.IsTemp(entry.Name()) || strings.HasSuffix(entry.Name(), ".new")
		if n := s.find(id); unfinished || data && (n == nil || !n.Pending) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("opening the snapshots: %w", err)
			}
		}
	}
	return s, nil
}

func (s *snapshotStore) load(name string) error {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return fmt.Errorf("opening the snapshots: %w", err)
	}
	var n snapshotRecord
	if err := json.Unmarshal(content, &n); err != nil {
		return fmt.Errorf("opening the snapshots: %s is damaged; remove the raft directory, and add this node again: %w",
			filepath.Join(s.dir, name), err)
	}
	s.records = append(s.records, n)
	return nil
}

func (s *snapshotStore) sort() {
	slices.SortFunc(s.records, func(a, b snapshotRecord) int {
		return -cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Term, b.Term), cmp.Compare(a.Sequence, b.Sequence))
	})
}

func (s *snapshotStore) find(id string) *snapshotRecord {
	for i := range s.records {
		if s.records[i].ID == id {
			return &s.records[i]
		}
	}
	return nil
}

// newest returns the latest record; false: there is none.
func (s *snapshotStore) newest() (snapshotRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.records) == 0 {
		return snapshotRecord{}, false
	}
	return s.records[0], true
}

// pending returns the received snapshot that is not applied yet; false: there is none.
func (s *snapshotStore) pending() (snapshotRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.records {
		if n.Pending {
			return n, true
		}
	}
	return snapshotRecord{}, false
}

// Create begins a snapshot. A snapshot with a Write to its sink is received from another
// node; one without is taken on this node.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sequence := uint64(1)
	for _, n := range s.records {
		sequence = max(sequence, n.Sequence+1)
	}
	return &snapshotSink{store: s, record: snapshotRecord{
		ID:       fmt.Sprintf("%d-%d-%d", index, term, sequence),
		Sequence: sequence, Version: version, Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// List returns snapshots newest first, without those that are not applied yet.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*raft.SnapshotMeta
	for _, n := range s.records {
		if !n.Pending {
			list = append(list, n.meta(0))
		}
	}
	return list, nil
}

// Open reads a received snapshot that is not applied yet. For all others it freezes the application's files, to be sent with the
// record of a new snapshot: the receiver applies the entries after the recorded index again, so an old index would have it write most
// files twice. An id without a record is an error with os.ErrNotExist.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	n, found := s.opened(id)
	if !found {
		return nil, nil, fmt.Errorf("opening snapshot %s: %w", id, os.ErrNotExist)
	}
	if n.Pending {
		return s.openData(n)
	}
	if s.freeze == nil {
		return nil, nil, fmt.Errorf("opening snapshot %s: this node has no function to freeze its files", id)
	}
	if s.renew != nil && s.renew() == nil {
		n = s.newestApplied(n)
	}
	// Frozen after the record is chosen: the files may have more than the record says, never less. The receiver applies the entries in
	// between again.
	frozen, err := s.freeze()
	if err != nil {
		return nil, nil, fmt.Errorf("freezing the files for a snapshot: %w", err)
	}
	out, size, err := newSnapshotEncoder(frozen, n.State)
	if err != nil {
		return nil, nil, errors.Join(err, frozen.Close())
	}
	return n.meta(size), out, nil
}

func (s *snapshotStore) opened(id string) (snapshotRecord, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.received != nil && s.received.ID == id {
		return *s.received, true
	}
	if n := s.find(id); n != nil {
		return *n, true
	}
	return snapshotRecord{}, false
}

// newestApplied is the newest record whose snapshot this node's files contain, and n if none is newer.
func (s *snapshotStore) newestApplied(n snapshotRecord) snapshotRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if !r.Pending && r.Index > n.Index {
			return r
		}
	}
	return n
}

func (s *snapshotStore) openData(n snapshotRecord) (*raft.SnapshotMeta, io.ReadCloser, error) {
	file, err := os.Open(s.dataPath(n.ID))
	if err != nil {
		return nil, nil, fmt.Errorf("opening a received snapshot: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("opening a received snapshot: %w", err)
	}
	return n.meta(info.Size()), file, nil
}

// add writes a record to the disk, and removes the records that it replaces: all but the newest recordsMax, and a received snapshot that
// was not restored when another one has come.
func (s *snapshotStore) add(n snapshotRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// On the disk before an old record is removed, so that there is always one to start from.
	if err := s.write(n); err != nil {
		return err
	}
	s.records = append(s.records, n)
	s.sort()
	complete := 0
	remaining := s.records[:0]
	var obsolete []snapshotRecord
	for _, old := range s.records {
		replaced := old.Pending && old.ID != n.ID && n.Received
		if !old.Pending {
			complete++
			replaced = complete > recordsMax
		}
		if replaced {
			obsolete = append(obsolete, old)
		} else {
			remaining = append(remaining, old)
		}
	}
	s.records = remaining
	return s.remove(obsolete)
}

// hold takes a received snapshot whose data is on the disk. After a crash before recordReceived it was not received.
func (s *snapshotStore) hold(n snapshotRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	former := s.received
	s.received = &n
	if former == nil || former.ID == n.ID {
		return nil
	}
	if err := os.Remove(s.dataPath(former.ID)); err != nil {
		return fmt.Errorf("removing a snapshot that was not restored: %w", err)
	}
	return nil
}

// recordReceived writes the record of the held snapshot, if there is one: from then on the snapshot replaces the entries up to its index.
// durable is called before, to make durable what these entries have changed: an archived file may be in no later entry and in no
// snapshot. If either fails, the data of the snapshot is removed.
func (s *snapshotStore) recordReceived(durable func() error) error {
	s.mu.Lock()
	held := s.received
	s.received = nil
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	err := durable()
	if err == nil {
		err = s.add(*held)
	}
	if err != nil {
		return errors.Join(err, os.Remove(s.dataPath(held.ID)))
	}
	return nil
}

// markRestored records that a received snapshot is applied, and removes its data file.
func (s *snapshotStore) markRestored(id string, state []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.find(id)
	if n == nil {
		return fmt.Errorf("finishing snapshot %s: %w", id, os.ErrNotExist)
	}
	done := *n
	done.Pending, done.State = false, state
	if err := s.write(done); err != nil {
		return err
	}
	*n = done
	// Not before the record says that the snapshot is applied: the next start would look for this data.
	if err := os.Remove(s.dataPath(id)); err != nil {
		return fmt.Errorf("removing a snapshot that is restored: %w", err)
	}
	return nil
}

func (s *snapshotStore) remove(obsolete []snapshotRecord) error {
	for _, n := range obsolete {
		err := os.Remove(filepath.Join(s.dir, n.ID+".json"))
		if n.Pending {
			err = errors.Join(err, os.Remove(s.dataPath(n.ID)))
		}
		if err != nil {
			return fmt.Errorf("removing an old snapshot: %w", err)
		}
	}
	return nil
}

func (s *snapshotStore) dataPath(id string) string { return filepath.Join(s.dir, id+".data") }

func (s *snapshotStore) write(n snapshotRecord) error {
	content, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing a snapshot's note: %w", err)
	}
	if err := persistence.ReplaceFile(filepath.Join(s.dir, n.ID+".json"), content, 0o600); err != nil {
		return fmt.Errorf("writing a snapshot's note: %w", err)
	}
	return nil
}
