package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/core/paths"
	"lockstep/core/replication"
	"lockstep/sim/simdisk"
)

// checkReplicas: after each batch of entries, the shared files of a node and its list of running
// jobs are those that its applied entries make. Files of jobs that its own processes write are
// excepted. In the end the shared files of all nodes are the same.
type checkReplicas struct{}

func (checkReplicas) Name() string { return "replicas agree" }

// entriesApplied: a node has reported that every entry up to an index is on its disk.
type entriesApplied struct {
	node    *node
	touched []string // files changed since the last report
	running replication.RunningJobs
}

func (checkReplicas) See(w *World, event any) error {
	switch e := event.(type) {
	case entriesApplied:
		if want := e.node.cluster.expected.running; !maps.Equal(e.running, want) {
			return fmt.Errorf("having applied %d, %s remembers the running jobs %v; they are %v",
				e.node.cluster.replica.Active.AppliedIndex(), e.node.name, e.running, want)
		}
		for _, name := range e.touched {
			if inArchive(name) && e.node.cluster.rebuilt {
				continue // a snapshot leaves them out
			}
			if strings.HasPrefix(name, paths.QuarantineDir+"/") {
				// Only users read an archived file. A log that is repeated from the middle may
				// replace the former file of an id by the present one.
				continue
			}
			if id, is := jobOfPath(name); is && e.running[id].Node == e.node.uuid() {
				continue
			}
			if replication.IsConfig(name) {
				if err := e.node.compareConfig(e.node.cluster.expected.config); err != nil {
					return fmt.Errorf("having applied %d: %w", e.node.cluster.replica.Active.AppliedIndex(), err)
				}
				continue
			}
			want, wanted := e.node.cluster.expected.files[name]
			if err := e.node.compareFile(name, want, wanted); err != nil {
				return fmt.Errorf("having applied %d: %w", e.node.cluster.replica.Active.AppliedIndex(), err)
			}
		}
	case finished:
		for _, n := range w.nodes {
			if n.daemon == nil {
				continue
			}
			if err := w.oracle.compare(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares all files that the nodes share, and the configuration, with what was committed.
func (t *oracle) compare(n *node) error {
	if err := n.compareConfig(t.config); err != nil {
		return err
	}
	have := n.sharedFiles()
	for _, name := range sortedKeys(t.files) {
		if !inArchive(name) && !replication.IsConfig(name) {
			if err := n.compareFile(name, t.files[name], true); err != nil {
				return err
			}
		}
		delete(have, name)
	}
	for _, name := range sortedKeys(have) {
		return n.compareFile(name, nil, false)
	}
	return nil
}

// rebuildExpected starts the expected files again, when a log starts to deliver from an index.
func (m *clusterNode) rebuildExpected(index uint64) {
	t := m.node.world.oracle
	reached := m.expected.reachedIndex
	m.expected = t.newExpected(t.initial)
	m.expected.reachedIndex = reached
	m.expected.applyThrough(t, index)
}

// applied is called by the replicator when a node has the entries up to index on its disk.
func (m *clusterNode) applied(index uint64, state []byte) {
	touched := m.expected.applyThrough(m.node.world.oracle, index)
	running, err := replication.DecodeRunningJobs(state)
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	if index < m.expected.reachedIndex {
		touched = nil
	}
	m.node.world.notify(entriesApplied{m.node, touched, running})
}

// restored is called after a snapshot. Its files come from another node, which may have been
// further than the snapshot says.
func (m *clusterNode) restored(index uint64) {
	m.rebuilt = true
	m.rebuildExpected(index)
	m.expected.reachedIndex = max(m.expected.reachedIndex, m.node.world.log.CommittedIndex())
}

// sharedChanged traces each change on the disk of a node of a cluster, and tells the checkers of locks and ssconf.
func (n *node) sharedChanged(call simdisk.Call, op, path string) {
	if call == simdisk.CallSync {
		return
	}
	if id, is := jobOfPath(path); is {
		text := "is gone"
		if f := n.disk.Find(path); f != nil {
			r := jobIn(f)
			text = jobText(r.job, r.err)
		}
		n.tracef(topicFile, "job %d: %s (%s)", id, text, op)
		return
	}
	if n == n.world.decider && slices.Contains(lockPaths[:], path) || strings.HasPrefix(path, paths.SsconfPrefix) {
		n.world.notify(otherFileChanged{disk: n.disk, call: call, path: path})
	}
	if path != paths.LocksJournalPath {
		n.tracef(topicDisk, "disk: %s %s (%s)", call, path, op)
	}
}
