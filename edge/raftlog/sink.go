package raftlog

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/raft"
)

// sink is a snapshot that is being taken or received.
type sink struct {
	of    *snapshots
	note  note
	file  *os.File // of what is received
	ended bool
}

func (s *sink) ID() string { return s.note.ID }

// Write takes in what another node sends.
func (s *sink) Write(content []byte) (int, error) {
	if s.file == nil {
		file, err := os.OpenFile(s.of.data(s.note.ID), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return 0, fmt.Errorf("receiving a snapshot: %w", err)
		}
		s.file = file
		s.note.Received, s.note.Pending = true, true
	}
	return s.file.Write(content)
}

// Close puts it on the disk.
func (s *sink) Close() error {
	if s.ended {
		return nil
	}
	if s.file != nil {
		if err := s.file.Sync(); err != nil {
			return errors.Join(fmt.Errorf("receiving a snapshot: %w", err), s.Cancel())
		}
		if err := s.file.Close(); err != nil {
			return errors.Join(fmt.Errorf("receiving a snapshot: %w", err), s.Cancel())
		}
	}
	s.ended = true
	return s.of.add(s.note)
}

// Cancel gives it up.
func (s *sink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if s.file == nil {
		return nil
	}
	s.file.Close()
	if err := os.Remove(s.of.data(s.note.ID)); err != nil {
		return fmt.Errorf("giving up a snapshot: %w", err)
	}
	return nil
}

// memory is what belongs into a snapshot taken here: it is in the note.
type memory struct {
	state []byte
	sync  func() error // see Config.Sync
}

// Persist has the note remember it.
func (m memory) Persist(to raft.SnapshotSink) error {
	if err := m.sync(); err != nil {
		return errors.Join(fmt.Errorf("taking a snapshot: %w", err), to.Cancel())
	}
	to.(*sink).note.State = m.state
	return to.Close()
}

// Release does nothing: the state is never changed.
func (memory) Release() {}
