package replication

import (
	"fmt"

	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/messages"
)

// IsConfig reports whether a file is the configuration or belongs to it. Every node has its own copy, which is written from the
// log by the node's storage of the configuration and may be older than the log. A snapshot has the files without a journal.
func IsConfig(file string) bool {
	return file == paths.ConfigPath || file == paths.TempResPath || file == paths.ConfigExtraPath
}

// RecordChanges are the changes by records of the configuration: all of them are applied, or none. The error is about a record
// that cannot be encoded.
func RecordChanges(records []*journal.Record) ([]*messages.FileChange, error) {
	var changes []*messages.FileChange
	for _, r := range records {
		line, err := journal.Encode(r, true)
		if err != nil {
			return nil, err
		}
		changes = append(changes, configChange(&messages.ConfigChange{What: &messages.ConfigChange_Record{Record: line.Bytes}}))
	}
	return changes, nil
}

// StateChange is the change that makes a configuration that of every node.
func StateChange(c journal.Contents) *messages.FileChange {
	return configChange(&messages.ConfigChange{What: &messages.ConfigChange_State{
		State: &messages.ConfigState{Config: c.Config, Tempres: c.TempRes, Extra: c.Extra}}})
}

func configChange(c *messages.ConfigChange) *messages.FileChange {
	return &messages.FileChange{What: &messages.FileChange_Config{Config: c}}
}

// ConfigFiles are the files of a configuration, in a snapshot.
func ConfigFiles(c journal.Contents) []*messages.FileWrite {
	var files []*messages.FileWrite
	for _, f := range []*messages.FileWrite{{Path: paths.ConfigPath, Content: c.Config}, {Path: paths.ConfigExtraPath, Content: c.Extra},
		{Path: paths.TempResPath, Content: c.TempRes}} {
		if f.Content != nil {
			f.Op = "freeze"
			files = append(files, f)
		}
	}
	return files
}

// TakeConfigFile stores a file of a snapshot that IsConfig in the contents.
func TakeConfigFile(c *journal.Contents, f *messages.FileWrite) {
	switch f.Path {
	case paths.ConfigPath:
		c.Config = f.Content
	case paths.ConfigExtraPath:
		c.Extra = f.Content
	case paths.TempResPath:
		c.TempRes = f.Content
	}
}

// ConfigChange is a change of the configuration by an entry.
type ConfigChange struct {
	journal.Change
	Entry int // index of the entry in its batch
}

// ConfigChanges are the changes of the configuration by a batch of entries, in order. A former version proposed config.data as a
// file: it is a whole state without reservations, whose next record has number 1. own returns the records of an entry
// if this node has them decoded, else nil.
func ConfigChanges(entries []*messages.LogEntry, own func(*messages.LogEntry) []*journal.Record) ([]ConfigChange, error) {
	var all []ConfigChange
	for at, e := range entries {
		records := own(e)
		if records != nil {
			all = append(all, ConfigChange{journal.Change{Records: records}, at})
			continue
		}
		for _, c := range e.Changes {
			if u := c.GetUpdate(); u.GetPath() == paths.ConfigPath {
				all = append(all, ConfigChange{journal.Change{Whole: &journal.Contents{Config: u.Content}}, at})
			}
			if s := c.GetConfig().GetState(); s != nil {
				all = append(all, ConfigChange{journal.Change{Whole: &journal.Contents{Config: s.Config, TempRes: s.Tempres, Extra: s.Extra}}, at})
			}
			line := c.GetConfig().GetRecord()
			if line == nil {
				continue
			}
			record, err := journal.Decode(line)
			if err != nil {
				return nil, fmt.Errorf("a change of the configuration cannot be decoded: %w", err)
			}
			if last := len(all) - 1; last >= 0 && all[last].Entry == at && all[last].Whole == nil {
				all[last].Records = append(all[last].Records, record)
			} else {
				all = append(all, ConfigChange{journal.Change{Records: []*journal.Record{record}}, at})
			}
		}
	}
	return all, nil
}
