package replication_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/config/configtest"
	"lockstep/core/config/journal"
	"lockstep/core/config/model"
	"lockstep/core/config/reserve"
	"lockstep/core/lock"
	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/messages"
)

// configured is a cluster whose log changes the configuration.
type configured struct {
	*rapid.T
	log     []*messages.LogEntry
	refused []bool // per entry, when it was applied first
	at      journal.Position
	nodes   []*replica
	open    []*messages.LogEntry // proposed by former masters on states that were true then, and not committed
	names   int
}

// replica is a node. Its log can begin again at the index of its snapshot, and its disk is at or after that index.
type replica struct {
	at                journal.Position
	applied, snapshot int
}

func newConfigured(t *rapid.T, config *model.Config) *configured {
	at, err := journal.Contents{Config: config.JSON()}.Position()
	require.NoError(t, err)
	h := &configured{T: t, at: at}
	for range nodes {
		h.nodes = append(h.nodes, &replica{at: at})
	}
	return h
}

// record is a change that an actor decides on a state.
func (h *configured) record(at journal.Position) (*journal.Record, journal.Position) {
	h.names++
	next := at.State
	e := at.Config.Edit()
	c := at.Config.Cluster.Value
	c.Name = fmt.Sprintf("cluster-%d", h.names)
	e.SetCluster(c)
	var touched []model.Touched
	next.Config, touched = e.Commit(model.Time(h.names))
	if h.names%2 == 0 {
		var err error
		next.Reserved, err = next.Reserved.Reserve(reserve.LV, "vg/"+c.Name, lock.Owner{Job: 7, Livelock: "l", PID: 70})
		require.NoError(h, err)
	}
	r := journal.NewRecord(at.Number+1, at.State, next, touched, model.Time(h.names), journal.Author{Method: "updateCluster", Job: 7})
	after, _, err := at.ApplyAll([]*journal.Record{r}, true)
	require.NoError(h, err)
	return r, after
}

// decide returns an entry with some records that are decided on the newest state.
func (h *configured) decide() *messages.LogEntry {
	at := h.at
	var records []*journal.Record
	for range rapid.IntRange(1, 3).Draw(h.T, "records") {
		var r *journal.Record
		r, at = h.record(at)
		records = append(records, r)
	}
	changes, err := replication.RecordChanges(records)
	require.NoError(h, err)
	return entry(replication.Applier{Node: "u0"}, changes)
}

func (h *configured) commit(e *messages.LogEntry) {
	c := h.at.Commit(changesOf(h, []*messages.LogEntry{e}))
	h.log, h.refused, h.at = append(h.log, e), append(h.refused, c.Refused[0]), c.Position
}

func changesOf(t require.TestingT, entries []*messages.LogEntry) []journal.Change {
	all, err := replication.ConfigChanges(entries, noneDecoded)
	require.NoError(t, err)
	var changes []journal.Change
	for _, c := range all {
		changes = append(changes, c.Change)
	}
	return changes
}

// apply applies entries on a node, in one batch.
func (h *configured) apply(n *replica, upTo int) {
	c := n.at.Commit(changesOf(h, h.log[n.applied:upTo]))
	n.at, n.applied = c.Position, upTo
}

func (h *configured) step() {
	node := func(label string) *replica { return h.nodes[rapid.IntRange(0, nodes-1).Draw(h.T, label)] }
	switch rapid.SampledFrom([]string{"change", "change", "change", "propose", "late", "again", "file", "state", "apply", "apply", "snapshot", "restart", "install"}).Draw(h.T, "what") {
	case "change":
		h.commit(h.decide())
	case "propose":
		h.open = append(h.open, h.decide())
	case "late": // of a former master, or of an actor that has decided on an older state
		if len(h.open) > 0 {
			h.commit(h.open[0])
			h.open = h.open[1:]
		}
	case "again": // a proposer repeats what it has no answer to
		if len(h.log) > 0 {
			h.commit(h.log[len(h.log)-1])
		}
	case "file":
		h.commit(updateChange(replication.Applier{Node: "u0"}, paths.ConfigPath, h.nodes[0].at.Config.JSON()))
	case "state":
		h.commit(entry(replication.Applier{Node: "u0"}, []*messages.FileChange{replication.StateChange(h.at.Contents())}))
	case "apply":
		n := node("node")
		h.apply(n, rapid.IntRange(n.applied, len(h.log)).Draw(h.T, "up to"))
	case "snapshot":
		n := node("node")
		n.snapshot = n.applied
	case "restart":
		n := node("node")
		n.applied = n.snapshot
	case "install":
		from, to := node("from"), node("to")
		if from.snapshot >= to.applied {
			at, err := from.at.Contents().Position()
			require.NoError(h, err)
			to.at, to.applied, to.snapshot = at, from.snapshot, from.snapshot
		}
	}
}

// Whatever the interleaving of records, whole files, restarts and snapshots: in the end all nodes have the same configuration,
// reservations and numbers.
func TestAllNodesComeToHaveTheSameConfiguration(t *testing.T) {
	config := configtest.Config()
	rapid.Check(t, func(t *rapid.T) {
		h := newConfigured(t, config)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
		}
		want := h.at.Contents()
		for i, n := range h.nodes {
			h.apply(n, len(h.log))
			have := n.at.Contents()
			require.Equal(t, string(want.Config), string(have.Config), "node %d", i)
			require.Equal(t, string(want.TempRes), string(have.TempRes), "node %d", i)
			require.Equal(t, string(want.Extra), string(have.Extra), "node %d", i)
		}
	})
}

// Nodes agree on which changes are refused, whatever their batches.
func TestRefusalsAreTheSameOnAllNodes(t *testing.T) {
	config := configtest.Config()
	rapid.Check(t, func(t *rapid.T) {
		h := newConfigured(t, config)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.step()
		}
		fresh := newConfigured(t, config)
		at, applied := fresh.at, 0
		for applied < len(h.log) {
			upTo := rapid.IntRange(applied+1, len(h.log)).Draw(t, "up to")
			c := at.Commit(changesOf(t, h.log[applied:upTo]))
			require.Equal(t, h.refused[applied:upTo], c.Refused)
			at, applied = c.Position, upTo
		}
	})
}

// An entry that this node has proposed need not be decoded.
func TestRecordsOfThisNodeAreNotDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newConfigured(t, configtest.Config())
		r, after := h.record(h.at)
		changes, err := replication.RecordChanges([]*journal.Record{r})
		require.NoError(t, err)
		e := entry(replication.Applier{Node: "u0"}, changes)
		all, err := replication.ConfigChanges([]*messages.LogEntry{e, e}, func(*messages.LogEntry) []*journal.Record { return []*journal.Record{r} })
		require.NoError(t, err)
		require.Same(t, r, all[0].Records[0])
		decoded := changesOf(t, []*messages.LogEntry{e})
		require.Nil(t, decoded[0].Records[0].After)
		c := h.at.Commit([]journal.Change{decoded[0], all[1].Change})
		require.Equal(t, []bool{false, false}, c.Refused)
		require.Len(t, c.Steps, 1, "the second is the same record")
		require.Equal(t, after.Contents(), c.Contents())
	})
}

func TestChangesOfTheConfigurationThatCannotBeUsed(t *testing.T) {
	broken := entry(elsewhereApplier, []*messages.FileChange{{What: &messages.FileChange_Config{
		Config: &messages.ConfigChange{What: &messages.ConfigChange_Record{Record: []byte("x\n")}}}}})
	_, err := replication.ConfigChanges([]*messages.LogEntry{broken}, noneDecoded)
	require.ErrorContains(t, err, "cannot be decoded")
	at, err := journal.Contents{Config: configtest.Config().JSON()}.Position()
	require.NoError(t, err)
	c := at.Commit(changesOf(t, []*messages.LogEntry{updateChange(elsewhereApplier, paths.ConfigPath, []byte("{}"))}))
	require.Equal(t, []bool{true}, c.Refused, "every node ignores it")
	require.False(t, c.Whole)
	require.Same(t, at.Config, c.Config)
}

var elsewhereApplier = replication.Applier{Node: "u9"}

// Files of the configuration are not written as files.
func TestApplyLeavesOutTheConfiguration(t *testing.T) {
	by := replication.Applier{Node: "u1"}
	changes := replication.WriteChanges(&messages.WriteFiles{Files: []*messages.FileWrite{{Path: paths.ConfigPath}, {Path: paths.SettingsPath}}})
	steps := by.Apply([]*messages.LogEntry{entry(by, changes), removed(by, paths.ConfigPath), entry(by, []*messages.FileChange{replication.StateChange(journal.Contents{})})}, nil)
	require.Len(t, steps, 1)
	require.Len(t, steps[0].GetWrite().Files, 1)
	require.Equal(t, paths.SettingsPath, steps[0].GetWrite().Files[0].Path)
	require.Equal(t, []string{paths.ConfigPath}, replication.ChangedPaths(replication.StateChange(journal.Contents{})))
}

func TestFilesOfASnapshot(t *testing.T) {
	var have journal.Contents
	want := journal.Contents{Config: []byte("c"), Extra: []byte("e"), TempRes: []byte("t")}
	for _, f := range replication.ConfigFiles(want) {
		require.True(t, replication.IsConfig(f.Path))
		replication.TakeConfigFile(&have, f)
	}
	require.Equal(t, want, have)
	require.Empty(t, replication.ConfigFiles(journal.Contents{}))
	require.False(t, replication.IsConfig(paths.ConfigJournalPath))
	require.False(t, replication.IsConfig(paths.SettingsPath))
}
