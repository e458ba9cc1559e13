package raftlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/hashicorp/raft"

	"lockstep/messages"
)

const (
	partFiles = 256
	partBytes = 1 << 20
)

// machine is raft's state machine: the attached actor, which it waits for.
type machine struct {
	desk      *desk
	snapshots *snapshots
	sync      func() error // see Config.Sync
	// membership says that another one is committed.
	membership func()
}

// Apply applies one entry.
func (m *machine) Apply(entry *raft.Log) any { return m.ApplyBatch([]*raft.Log{entry})[0] }

// ApplyBatch hands committed entries to the actor and waits until they are on the
// disk. Those of which that is not certain are answered with errClosed.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	entries := make([]*messages.CommittedEntry, 0, len(logs))
	for _, l := range logs {
		switch l.Type {
		case raft.LogCommand:
			entries = append(entries, &messages.CommittedEntry{Index: l.Index, Entry: l.Data})
		case raft.LogConfiguration:
			m.membership()
		}
	}
	if len(entries) == 0 {
		return answers
	}
	if from, err := m.desk.apply(entries); err != nil {
		for i, l := range logs {
			if l.Index >= from {
				answers[i] = err
			}
		}
	}
	return answers
}

// Snapshot takes down what the application remembers. Raft calls it between two
// batches, so it belongs to the index that raft gives the snapshot.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	state, err := m.desk.remembered()
	if err != nil {
		return nil, err
	}
	return memory{state: state, sync: m.sync}, nil
}

// Restore gives the actor the snapshot that was received last. That may take several
// attempts, so it is read from its file and not from what raft has opened.
func (m *machine) Restore(io.ReadCloser) error {
	n, found := m.snapshots.pending()
	if !found {
		return errors.New("restoring a snapshot: none has been received")
	}
	for {
		changed, err := m.desk.attached()
		if err != nil {
			return err
		}
		state, err := m.handOver(n, changed)
		if errors.Is(err, errAgain) {
			continue
		}
		if err != nil {
			return fmt.Errorf("restoring a snapshot: %w", err)
		}
		if err := m.snapshots.restored(n.ID, state); err != nil {
			return err
		}
		m.desk.remember(n.Index, state)
		m.membership()
		return nil
	}
}

// handOver gives the parts of a snapshot to an actor, one after another.
func (m *machine) handOver(n note, changed chan struct{}) (state []byte, err error) {
	_, file, err := m.snapshots.openData(n)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	in, err := newIncoming(file)
	if err != nil {
		return nil, err
	}
	part := &messages.LogRestore{Part: 1, State: in.state, Index: n.Index}
	held := 0
	pass := func() error {
		err := m.desk.restore(changed, part)
		part, held = &messages.LogRestore{Part: part.Part + 1, Index: n.Index}, 0
		return err
	}
	for in.left > 0 {
		path, content, err := in.next()
		if err != nil {
			return nil, err
		}
		full := len(part.Files) == partFiles || held+len(content) > partBytes
		if full && len(part.Files) > 0 {
			if err := pass(); err != nil {
				return nil, err
			}
		}
		part.Files = append(part.Files, &messages.FileWrite{Op: "restore", Path: path, Content: content})
		held += len(content)
	}
	part.Last = true
	return in.state, pass()
}
