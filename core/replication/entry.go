package replication

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"lockstep/core/paths"
	"lockstep/messages"
)

// IsShared reports whether all nodes of a cluster have this file: jobs and their records, serial, drain flag,
// configuration, settings, durations, sessions of the console, grants, features of the members, schedules, the audit log and the keys of
// queries about the configuration. Only the master has locks, because their owners are its processes. A node's journal and history of the
// configuration are its own.
func IsShared(file string) bool {
	switch dir := path.Dir(file); {
	case file == paths.ConfigPath,
		file == paths.SettingsPath,
		file == paths.DurationsPath,
		file == paths.ConfdKeyPath,
		file == paths.ConfdOtherKeyPath,
		file == paths.SerialPath,
		file == paths.DrainPath,
		file == paths.SessionsPath,
		file == paths.AccessPath,
		file == paths.FeaturesPath:
		return true
	case dir == paths.QueueDir:
		_, job := paths.ParseJobName(path.Base(file))
		_, record := paths.ParseRecordName(path.Base(file))
		return job || record
	case dir == paths.ScheduleDir:
		_, schedule := paths.ParseSchedulePath(file)
		return schedule
	case dir == paths.AuditDir:
		_, audit := paths.ParseAuditPath(file)
		return audit
	default:
		return dir == paths.QuarantineDir || strings.HasPrefix(dir, paths.ArchiveDir+"/")
	}
}

// ChangesConfig reports whether an entry of the log changes the configuration.
func ChangesConfig(entry []byte) bool {
	e, err := messages.UnmarshalLogEntry(entry)
	return err == nil && slices.ContainsFunc(e.Changes, func(c *messages.FileChange) bool { return c.GetConfig() != nil })
}

// MayWait reports whether an entry may be a moment late on the disk of a node that follows another: it changes only files of
// jobs, the serial, schedules and the audit log, which the master alone reads. Nodes answer from the other files themselves.
func MayWait(e *messages.LogEntry) bool {
	for _, c := range e.Changes {
		for _, file := range ChangedPaths(c) {
			switch dir := path.Dir(file); {
			case dir == paths.QueueDir, dir == paths.QuarantineDir, dir == paths.AuditDir, dir == paths.ScheduleDir,
				strings.HasPrefix(dir, paths.ArchiveDir+"/"):
			default:
				return false
			}
		}
	}
	return true
}

// ChangedPaths are the files that a change writes or removes.
func ChangedPaths(c *messages.FileChange) []string {
	switch what := c.What.(type) {
	case *messages.FileChange_Update:
		return []string{what.Update.Path}
	case *messages.FileChange_Rename:
		return []string{what.Rename.From, what.Rename.To}
	case *messages.FileChange_Remove:
		return []string{what.Remove.Path}
	case *messages.FileChange_Config:
		return []string{paths.ConfigPath}
	}
	return nil
}

// WriteChanges are the changes that a write request makes. Either all of its files are shared or none is; a mixed
// request is a broken invariant.
func WriteChanges(m *messages.WriteFiles) []*messages.FileChange {
	var changes []*messages.FileChange
	files := m.Files
	if m.CommitRecord != nil {
		files = append(slices.Clone(files), m.CommitRecord)
	}
	for _, f := range files {
		if IsShared(f.Path) {
			changes = append(changes, updateChange(f.Path, f.Content, false))
		}
	}
	mustShareAllOrNone(len(changes), len(files))
	return changes
}

// RenameChanges are the changes of shared files that a request to move makes; nil if it moves files of this node only. It panics if only
// some are shared.
func RenameChanges(m *messages.MoveFiles) []*messages.FileChange {
	var changes []*messages.FileChange
	for _, f := range m.Files {
		if IsShared(f.From) && IsShared(f.To) {
			changes = append(changes, &messages.FileChange{What: &messages.FileChange_Rename{Rename: f}})
		}
	}
	mustShareAllOrNone(len(changes), len(m.Files))
	return changes
}

// RemoveChanges are the changes of shared files that a request to remove makes; nil if it removes files of this node only. It panics if
// only some are shared.
func RemoveChanges(m *messages.RemoveFiles) []*messages.FileChange {
	var changes []*messages.FileChange
	for _, p := range m.Paths {
		if IsShared(p) {
			changes = append(changes, &messages.FileChange{What: &messages.FileChange_Remove{Remove: &messages.RemoveFile{Op: m.Op, Path: p}}})
		}
	}
	mustShareAllOrNone(len(changes), len(m.Paths))
	return changes
}

// ObservedChange is a change that is already on the master's disk: a job process has made it, or other nodes lack the
// file.
func ObservedChange(file string, content []byte) *messages.FileChange {
	return updateChange(file, content, true)
}

func updateChange(file string, content []byte, observed bool) *messages.FileChange {
	update := &messages.FileUpdate{Path: file, Content: content, Observed: observed}
	return &messages.FileChange{What: &messages.FileChange_Update{Update: update}}
}

func mustShareAllOrNone(shared, all int) {
	if shared != 0 && shared != all {
		panic(fmt.Sprintf("replication: %d of %d files of one request are shared", shared, all))
	}
}

// SplitChanges splits changes into lists of at most bytesMax bytes of content each, in order. A larger change is a
// separate list. So no entry of the log delays the others for long.
func SplitChanges(changes []*messages.FileChange, bytesMax int) [][]*messages.FileChange {
	var parts [][]*messages.FileChange
	size := 0
	for _, c := range changes {
		length := len(c.GetUpdate().GetContent())
		if len(parts) == 0 || size+length > bytesMax {
			parts, size = append(parts, nil), 0
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], c)
		size += length
	}
	return parts
}
