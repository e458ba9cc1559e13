package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"lockstep/core/config/journal"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// oracle is what a cluster has promised: the files that the committed entries make. World.disk is
// a disk on which each entry is applied when it is committed; checkers compare answers to clients
// with it.
type oracle struct {
	world   *World
	initial map[string][]byte // files from before the first entry
	entries []committedEntry  // in order
	files   map[string][]byte
	config  journal.Position // the configuration; its file is in files too
	running replication.RunningJobs
}

type committedEntry struct {
	index uint64
	entry *messages.LogEntry
}

// committed records one committed entry: in the files that all nodes must have, and on the oracle's disk, which the checkers read.
func (t *oracle) committed(index uint64, data []byte) {
	if data == nil {
		return
	}
	decoded, err := messages.UnmarshalLogEntry(data)
	if err != nil {
		panic(fmt.Errorf("sim: index %d: %w", index, err))
	}
	t.entries = append(t.entries, committedEntry{index, decoded})
	t.running.Apply(decoded)
	for _, c := range decoded.Changes {
		t.world.trace.addf(topicDisk, "log: %d: %s", index, changeText(c))
		t.apply(c)
	}
	at := withEntry(t.config, decoded)
	if at.Number != t.config.Number {
		t.must(t.world.disk.Replace("committed", paths.TempResPath, at.TempRes()))
		t.must(t.world.disk.Replace("committed", paths.ConfigExtraPath, at.Extra()))
	}
	if at.Config != t.config.Config {
		t.configure(at)
	} else {
		t.config = at
	}
}

// configure takes a new configuration. Its file has it at once.
func (t *oracle) configure(at journal.Position) {
	t.config = at
	t.files[paths.ConfigPath] = at.Config.JSON()
	t.must(t.world.disk.Replace("committed", paths.ConfigPath, t.files[paths.ConfigPath]))
	t.must(t.world.disk.SyncDir("committed", path.Dir(paths.ConfigPath)))
}

// apply applies a change to the expected files and, durably, to the oracle's disk, unless it is one of the configuration.
func (t *oracle) apply(c *messages.FileChange) {
	if replication.IsConfig(replication.ChangedPaths(c)[0]) {
		return
	}
	d := t.world.disk
	applyChange(t.files, c)
	switch what := c.What.(type) {
	case *messages.FileChange_Update:
		t.must(d.Replace("committed", what.Update.Path, what.Update.Content))
		t.must(d.SyncDir("committed", path.Dir(what.Update.Path)))
	case *messages.FileChange_Rename:
		if d.Find(what.Rename.From) != nil {
			t.must(d.Rename("committed", what.Rename.From, what.Rename.To))
			t.must(d.SyncDir("committed", path.Dir(what.Rename.To)))
			t.must(d.SyncDir("committed", path.Dir(what.Rename.From)))
		}
	case *messages.FileChange_Remove:
		t.must(d.Remove("committed", what.Remove.Path))
		t.must(d.SyncDir("committed", path.Dir(what.Remove.Path)))
	}
}

func (t *oracle) must(err error) {
	if err != nil {
		panic(fmt.Errorf("sim: %w", err)) // this disk does not fail
	}
}

func changeText(c *messages.FileChange) string {
	switch what := c.What.(type) {
	case *messages.FileChange_Update:
		observed := ""
		if what.Update.Observed {
			observed = ", observed"
		}
		return what.Update.Path + observed
	case *messages.FileChange_Rename:
		return what.Rename.From + " becomes " + what.Rename.To
	case *messages.FileChange_Config:
		return "a change of the configuration"
	default:
		return replication.ChangedPaths(c)[0] + " is removed"
	}
}

// applyChange makes a change in a map of files, unless it is one of the configuration.
func applyChange(files map[string][]byte, c *messages.FileChange) {
	if replication.IsConfig(replication.ChangedPaths(c)[0]) {
		return
	}
	switch what := c.What.(type) {
	case *messages.FileChange_Update:
		files[what.Update.Path] = what.Update.Content
	case *messages.FileChange_Rename:
		if content, there := files[what.Rename.From]; there {
			delete(files, what.Rename.From)
			files[what.Rename.To] = content
		}
	case *messages.FileChange_Remove:
		delete(files, what.Remove.Path)
	}
}

// expectedFiles are the files that a node must have after its applied entries.
type expectedFiles struct {
	next  int // index in oracle.entries
	files map[string][]byte
	// config is the configuration that the node must have in its files.
	config journal.Position
	// running are the jobs that the node must know to be running.
	running replication.RunningJobs
	// reachedIndex is the index that the node's files may have reached already: after a restart
	// or a snapshot it applies the same entries again.
	reachedIndex uint64
}

// applyThrough applies the entries up to an index, and returns the names of the changed files.
func (m *expectedFiles) applyThrough(t *oracle, index uint64) (touched []string) {
	for m.next < len(t.entries) && t.entries[m.next].index <= index {
		for _, c := range t.entries[m.next].entry.Changes {
			applyChange(m.files, c)
			touched = append(touched, replication.ChangedPaths(c)...)
		}
		m.running.Apply(t.entries[m.next].entry)
		m.config = withEntry(m.config, t.entries[m.next].entry)
		m.next++
	}
	slices.Sort(touched)
	return slices.Compact(touched)
}

// newExpected starts with the files from before the first entry.
func (t *oracle) newExpected(first map[string][]byte) *expectedFiles {
	return &expectedFiles{files: maps.Clone(first), running: replication.RunningJobs{}, config: firstPosition(first)}
}

// sharedFiles are the files on a node's disk that a snapshot contains, by path.
func (n *node) sharedFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, dir := range []string{".", paths.QueueDir, paths.AuditDir, paths.ScheduleDir} {
		for base, f := range n.disk.Files(dir) {
			if name := path.Join(dir, base); replication.IsShared(name) {
				files[name] = f.Data
			}
		}
	}
	return files
}

// snapshotFiles are the shared files for a snapshot. Files of jobs that run on this node are
// those in the log.
func (n *node) snapshotFiles() []*messages.FileWrite {
	files := n.sharedFiles()
	for _, id := range n.cluster.expected.running.StartedOn(n.uuid()) {
		files[paths.JobPath(id)] = n.cluster.expected.files[paths.JobPath(id)]
	}
	var writes []*messages.FileWrite
	for _, name := range sortedKeys(files) {
		if !replication.IsConfig(name) {
			writes = append(writes, &messages.FileWrite{Op: "restore", Path: name, Content: files[name]})
		}
	}
	at, err := n.configPosition()
	if err != nil {
		panic(fmt.Errorf("sim: read the configuration of node %s: %w", n.name, err))
	}
	return append(writes, replication.ConfigFiles(at.Contents())...)
}

// compareFile compares a file of a node with the expected content; wanted false: there must be no such file.
func (n *node) compareFile(name string, want []byte, wanted bool) error {
	f := n.disk.Find(name)
	switch {
	case f == nil && wanted:
		return fmt.Errorf("%s has no %s", n.name, name)
	case f != nil && !wanted:
		return fmt.Errorf("%s has %s, which is not there any more", n.name, name)
	case f != nil && !bytes.Equal(f.Data, want):
		return fmt.Errorf("%s has another %s: %s, and %s is what was committed", n.name, name, fileText(f.Data), fileText(want))
	}
	return nil
}

func fileText(data []byte) string {
	if r := parseJob(data); r.err == nil {
		return jobText(r.job, nil)
	}
	return fmt.Sprintf("%.60q", data)
}

// sortedKeys are the keys of a map in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// inArchive reports whether the file is in a directory that snapshots leave out.
func inArchive(name string) bool {
	return strings.HasPrefix(name, paths.ArchiveDir+"/") || strings.HasPrefix(name, paths.QuarantineDir+"/")
}
