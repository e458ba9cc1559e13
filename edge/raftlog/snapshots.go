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

// kept is how many notes of snapshots there are.
const kept = 2

// note is a snapshot, as far as it is not in the files themselves.
type note struct {
	ID                 string
	Sequence           uint64
	Version            raft.SnapshotVersion
	Index              uint64
	Term               uint64
	Configuration      raft.Configuration
	ConfigurationIndex uint64
	State              []byte // what the application remembers
	// Received: it came from another node, and so replaced the log up to Index.
	Received bool
	// Pending: it was received as a whole, and its files are in ID.data. Until the
	// application has all of them, its own are a mixture.
	Pending bool
}

func (n *note) meta(size int64) *raft.SnapshotMeta {
	return &raft.SnapshotMeta{Version: n.Version, ID: n.ID, Index: n.Index, Term: n.Term,
		Configuration: n.Configuration, ConfigurationIndex: n.ConfigurationIndex, Size: size}
}

// snapshots is raft's SnapshotStore. A snapshot taken here is a note; its files are
// those of the application, and are frozen when it is opened to be sent.
type snapshots struct {
	dir    string
	freeze func() (Frozen, error)

	mu    sync.Mutex
	notes []note // the newest first
}

func openSnapshots(dir string, freeze func() (Frozen, error)) (*snapshots, error) {
	s := &snapshots{dir: dir, freeze: freeze}
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
		// What is left of one that was being received when the process ended.
		id, data := strings.CutSuffix(entry.Name(), ".data")
		// Former versions gave notes that were being written a name that ends in .new.
		half := persistence.IsTemp(entry.Name()) || strings.HasSuffix(entry.Name(), ".new")
		if n := s.find(id); half || data && (n == nil || !n.Pending) {
			if err := os.Remove(filepath.Join(dir, entry.Name())); err != nil {
				return nil, fmt.Errorf("opening the snapshots: %w", err)
			}
		}
	}
	return s, nil
}

func (s *snapshots) load(name string) error {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return fmt.Errorf("opening the snapshots: %w", err)
	}
	var n note
	if err := json.Unmarshal(content, &n); err != nil {
		return fmt.Errorf("opening the snapshots: %s is damaged; remove the raft directory, and add this node again: %w",
			filepath.Join(s.dir, name), err)
	}
	s.notes = append(s.notes, n)
	return nil
}

func (s *snapshots) sort() {
	slices.SortFunc(s.notes, func(a, b note) int {
		return -cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Term, b.Term), cmp.Compare(a.Sequence, b.Sequence))
	})
}

func (s *snapshots) find(id string) *note {
	for i := range s.notes {
		if s.notes[i].ID == id {
			return &s.notes[i]
		}
	}
	return nil
}

// newest is the latest note; false: there is none.
func (s *snapshots) newest() (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.notes) == 0 {
		return note{}, false
	}
	return s.notes[0], true
}

// pending is the snapshot that was received and is not on the disk yet.
func (s *snapshots) pending() (note, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.notes {
		if n.Pending {
			return n, true
		}
	}
	return note{}, false
}

// Create begins a snapshot: with a Write it is one that is received, without one
// that is taken here.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sequence := uint64(1)
	for _, n := range s.notes {
		sequence = max(sequence, n.Sequence+1)
	}
	return &sink{of: s, note: note{
		ID:       fmt.Sprintf("%d-%d-%d", index, term, sequence),
		Sequence: sequence, Version: version, Index: index, Term: term,
		Configuration: configuration, ConfigurationIndex: configurationIndex,
	}}, nil
}

// List has the newest first. Those that are not on the disk yet are none to send.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []*raft.SnapshotMeta
	for _, n := range s.notes {
		if !n.Pending {
			list = append(list, n.meta(0))
		}
	}
	return list, nil
}

// Open reads what was received, or freezes the files to be sent.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	s.mu.Lock()
	found := s.find(id)
	if found == nil {
		s.mu.Unlock()
		return nil, nil, fmt.Errorf("opening snapshot %s: %w", id, os.ErrNotExist)
	}
	n := *found
	s.mu.Unlock()
	if n.Pending {
		return s.openData(n)
	}
	if s.freeze == nil {
		return nil, nil, fmt.Errorf("opening snapshot %s: nobody freezes files here", id)
	}
	frozen, err := s.freeze()
	if err != nil {
		return nil, nil, fmt.Errorf("freezing the files for a snapshot: %w", err)
	}
	out, size, err := newOutgoing(frozen, n.State)
	if err != nil {
		return nil, nil, errors.Join(err, frozen.Close())
	}
	return n.meta(size), out, nil
}

func (s *snapshots) openData(n note) (*raft.SnapshotMeta, io.ReadCloser, error) {
	file, err := os.Open(s.data(n.ID))
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

// add puts a note on the disk, and removes those that it replaces.
func (s *snapshots) add(n note) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.write(n); err != nil {
		return err
	}
	s.notes = append(s.notes, n)
	s.sort()
	taken := 0
	keep := s.notes[:0]
	var gone []note
	for _, old := range s.notes {
		replaced := old.Pending && old.ID != n.ID && n.Received
		if !old.Pending {
			taken++
			replaced = taken > kept
		}
		if replaced {
			gone = append(gone, old)
		} else {
			keep = append(keep, old)
		}
	}
	s.notes = keep
	return s.remove(gone)
}

// restored says that the files of a received snapshot are on the disk.
func (s *snapshots) restored(id string, state []byte) error {
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
	if err := os.Remove(s.data(id)); err != nil {
		return fmt.Errorf("removing a snapshot that is restored: %w", err)
	}
	return nil
}

func (s *snapshots) remove(gone []note) error {
	for _, n := range gone {
		err := os.Remove(filepath.Join(s.dir, n.ID+".json"))
		if n.Pending {
			err = errors.Join(err, os.Remove(s.data(n.ID)))
		}
		if err != nil {
			return fmt.Errorf("removing an old snapshot: %w", err)
		}
	}
	return nil
}

func (s *snapshots) data(id string) string { return filepath.Join(s.dir, id+".data") }

func (s *snapshots) write(n note) error {
	content, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("writing a snapshot's note: %w", err)
	}
	if err := persistence.ReplaceFile(filepath.Join(s.dir, n.ID+".json"), content, 0o600); err != nil {
		return fmt.Errorf("writing a snapshot's note: %w", err)
	}
	return nil
}
