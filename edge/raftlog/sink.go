package raftlog

import (
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/raft"
)

// snapshotSink is a snapshot that is being taken or received.
type snapshotSink struct {
	store  *snapshotStore
	record snapshotRecord
	file   *os.File // of a received snapshot
	ended  bool
}

func (s *snapshotSink) ID() string { return s.record.ID }

// Write writes the content that another node sends to the data file.
func (s *snapshotSink) Write(content []byte) (int, error) {
	if s.file == nil {
		file, err := os.OpenFile(s.store.dataPath(s.record.ID), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return 0, fmt.Errorf("receiving a snapshot: %w", err)
		}
		s.file = file
		s.record.Received, s.record.Pending = true, true
	}
	return s.file.Write(content)
}

// Close completes the snapshot. The record of one that is taken on this node is on the disk then, that of a received one when it
// is about to be restored.
func (s *snapshotSink) Close() error {
	if s.ended {
		return nil
	}
	if s.file != nil {
		// The data is durable before the snapshot can be recorded.
		if err := s.file.Sync(); err != nil {
			return errors.Join(fmt.Errorf("receiving a snapshot: %w", err), s.Cancel())
		}
		if err := s.file.Close(); err != nil {
			return errors.Join(fmt.Errorf("receiving a snapshot: %w", err), s.Cancel())
		}
	}
	s.ended = true
	if s.record.Received {
		return s.store.hold(s.record)
	}
	return s.store.add(s.record)
}

// Cancel discards the snapshot and its data file. After the end of the snapshot it does nothing.
func (s *snapshotSink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if s.file == nil {
		return nil
	}
	s.file.Close()
	if err := os.Remove(s.store.dataPath(s.record.ID)); err != nil {
		return fmt.Errorf("giving up a snapshot: %w", err)
	}
	return nil
}

// fsmSnapshot is the content of a snapshot taken on this node: the application's state.
type fsmSnapshot struct {
	state  []byte
	sync   func() error             // see Config.Sync
	noting func(index uint64) error // see Config.Noting
}

// Persist makes the files durable and puts the state into the snapshot's record. After a failure the snapshot is discarded.
func (s fsmSnapshot) Persist(to raft.SnapshotSink) error {
	sink := to.(*snapshotSink)
	// First the files, then the note beside the queue, then the record: with the record raft may drop the entries that these files come
	// from.
	err := s.sync()
	if err == nil {
		err = s.noting(sink.record.Index)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("taking a snapshot: %w", err), to.Cancel())
	}
	sink.record.State = s.state
	return to.Close()
}

// Release does nothing, because the state is immutable.
func (fsmSnapshot) Release() {}
