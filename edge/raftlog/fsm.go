package raftlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

const (
	partFilesMax = 4096
	partBytesMax = 8 << 20
)

// fsm is raft's state machine. It sends entries and snapshots to the attached actor. Entries that raft counts as applied
// may not be on the disk yet; a snapshot waits for them.
type fsm struct {
	bridge    *bridge
	snapshots *snapshotStore
	sync      func() error             // see Config.Sync
	noting    func(index uint64) error // see Config.Noting
	// onMembership is called when a change of membership is committed.
	onMembership func()
	// announce is called with committed entries before they are applied.
	announce func(entries []*raft.Log)
}

// Apply applies one entry.
func (f *fsm) Apply(entry *raft.Log) any { return f.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch sends committed entries to the actor. The result of an entry that the actor did not get is errClosed.
func (f *fsm) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	entries := make([]*messages.CommittedEntry, 0, len(logs))
	for _, l := range logs {
		switch l.Type {
		case raft.LogCommand:
			entries = append(entries, &messages.CommittedEntry{Index: l.Index, Entry: l.Data})
		case raft.LogConfiguration:
			f.onMembership()
		}
	}
	if len(entries) == 0 {
		return answers
	}
	// Before the actor gets the entries, because it answers clients then.
	f.announce(logs)
	if err := f.bridge.apply(entries); err != nil {
		for i := range logs {
			answers[i] = err
		}
	}
	return answers
}

// Snapshot copies the application's state when all entries before are on the disk. Raft calls it between two batches, so
// the state belongs to the index that raft gives the snapshot.
func (f *fsm) Snapshot() (raft.FSMSnapshot, error) {
	state, err := f.bridge.appState()
	if err != nil {
		return nil, err
	}
	return fsmSnapshot{state: state, sync: f.sync, noting: f.noting}, nil
}

// Restore sends the last received snapshot to the actor. It begins again if another actor is
// attached, so it reads the snapshot's file and not the reader that raft has opened.
func (f *fsm) Restore(io.ReadCloser) error {
	// Entries that are on their way to the disk are older than the snapshot, and would overwrite its files.
	if err := f.bridge.awaitApplied(); err != nil {
		return err
	}
	// From this record on the snapshot counts as received: after a crash the restore begins again with it.
	if err := f.snapshots.recordReceived(f.sync); err != nil {
		return err
	}
	record, found := f.snapshots.pending()
	if !found {
		return errors.New("restoring a snapshot: none has been received")
	}
	for {
		reattached, err := f.bridge.awaitAttached()
		if err != nil {
			return err
		}
		state, err := f.sendParts(record, reattached)
		if errors.Is(err, errReattached) {
			continue
		}
		if err != nil {
			return fmt.Errorf("restoring a snapshot: %w", err)
		}
		// The files are durable before the snapshot counts as applied: its data is removed then, and nothing could repair them.
		if err := f.sync(); err != nil {
			return err
		}
		// Noted beside the queue before the log records the index: from then on the log lacks the entries that an older copy of the queue would
		// need.
		if err := f.noting(record.Index); err != nil {
			return fmt.Errorf("restoring a snapshot: %w", err)
		}
		if err := f.snapshots.markRestored(record.ID, state); err != nil {
			return err
		}
		f.bridge.setAppState(record.Index, state)
		f.onMembership()
		return nil
	}
}

// sendParts sends the parts of a snapshot to the attached actor, one after another, each when the former one is on the disk. It returns
// the state in the snapshot. The error may be that another actor was attached.
func (f *fsm) sendParts(record snapshotRecord, reattached chan struct{}) (state []byte, err error) {
	_, file, err := f.snapshots.openData(record)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder, err := newSnapshotDecoder(file)
	if err != nil {
		return nil, err
	}
	part := &messages.LogSnapshotReceived{Part: 1, State: decoder.state, Index: record.Index}
	size := 0
	flush := func() error {
		err := f.bridge.restorePart(reattached, part)
		part, size = &messages.LogSnapshotReceived{Part: part.Part + 1, Index: record.Index}, 0
		return err
	}
	for decoder.filesLeft > 0 {
		path, content, err := decoder.next()
		if err != nil {
			return nil, err
		}
		full := len(part.Files) == partFilesMax || size+len(content) > partBytesMax
		if full && len(part.Files) > 0 {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		part.Files = append(part.Files, &messages.FileWrite{Op: "restore", Path: path, Content: content})
		size += len(content)
	}
	part.Last = true
	return decoder.state, flush()
}
