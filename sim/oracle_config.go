package sim

import (
	"bytes"
	"fmt"

	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// withEntry returns the position of a configuration after an entry of the log.
func withEntry(at journal.Position, e *messages.LogEntry) journal.Position {
	found, err := replication.ConfigChanges([]*messages.LogEntry{e}, func(*messages.LogEntry) []*journal.Record { return nil })
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	for _, c := range found {
		at = at.Commit([]journal.Change{c.Change}).Position
	}
	return at
}

// firstPosition returns the position of the configuration in files from before the first entry; the zero position without one.
func firstPosition(files map[string][]byte) journal.Position {
	if files[paths.ConfigPath] == nil {
		return journal.Position{}
	}
	at, err := journal.Contents{Config: files[paths.ConfigPath]}.Position()
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	return at
}

// configPosition returns the configuration that the files of a node have together.
func (n *node) configPosition() (journal.Position, error) {
	files := journal.Files{
		TempRes: dataOf(n.disk, paths.TempResPath),
		Extra:   dataOf(n.disk, paths.ConfigExtraPath),
		Journal: dataOf(n.disk, paths.ConfigJournalPath),
	}
	if raw := dataOf(n.disk, paths.ConfigPath); raw != nil {
		var err error
		if files.Config, _, err = journal.DecodeConfig(raw); err != nil {
			return journal.Position{}, err
		}
	}
	r, err := journal.Recover(files, false)
	return r.Position, err
}

// compareConfig compares the configuration of a node with the expected one. The files may be of different ages, but together
// they have every record that the node has applied.
func (n *node) compareConfig(want journal.Position) error {
	at, err := n.configPosition()
	if err != nil {
		return fmt.Errorf("the configuration of %s: %w", n.name, err)
	}
	switch a, b := at.Contents(), want.Contents(); {
	case at.Number != want.Number:
		return fmt.Errorf("%s has record %d of the configuration, and %d is the last one committed", n.name, at.Number, want.Number)
	case !bytes.Equal(a.Config, b.Config):
		return fmt.Errorf("%s has another configuration after record %d: %.60q, and %.60q is what was committed",
			n.name, at.Number, a.Config, b.Config)
	case !bytes.Equal(a.TempRes, b.TempRes):
		return fmt.Errorf("%s has other reservations after record %d: %.60q, and %.60q is what was committed",
			n.name, at.Number, a.TempRes, b.TempRes)
	}
	return nil
}
