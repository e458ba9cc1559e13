package sim

import (
	"fmt"
	"maps"
	"strings"

	"lockstep/core/paths"
	"lockstep/core/replication"
)

// checkReplicas: a node's shared files are what the entries make them that it has
// applied, but for those of jobs that its own processes write; and in the end those of
// all nodes are.
type checkReplicas struct{}

func (checkReplicas) Name() string { return "replicas agree" }

// appliedHere: a node has said that everything up to an index is on its disk.
type appliedHere struct {
	node    *node
	touched []string // since it said so last
	running replication.Running
}

func (checkReplicas) See(w *World, event any) error {
	switch e := event.(type) {
	case appliedHere:
		if want := e.node.member.mirror.running; !maps.Equal(e.running, want) {
			return fmt.Errorf("having applied %d, %s remembers the running jobs %v; they are %v", e.node.member.replica.runs.desk.applied, e.node.name, e.running, want)
		}
		for _, name := range e.touched {
			if archived(name) && e.node.member.restart {
				continue // a snapshot leaves them out
			}
			if strings.HasPrefix(name, paths.QuarantineDir+"/") {
				// For people to look at. A log that is repeated from the middle may set
				// aside the file that has an id now, in the place of the one before.
				continue
			}
			if id, is := jobOfPath(name); is && e.running[id].On == e.node.uuid() {
				continue
			}
			want, wanted := e.node.member.mirror.files[name]
			if err := e.node.alike(name, want, wanted); err != nil {
				return fmt.Errorf("having applied %d: %w", e.node.member.replica.runs.desk.applied, err)
			}
		}
	case finished:
		for _, n := range w.nodes {
			if n.daemon == nil {
				continue
			}
			if err := w.truth.same(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// same compares all files that all nodes have in common.
func (t *truth) same(n *node) error {
	have := n.sharedFiles()
	for _, name := range sortedKeys(t.files) {
		if !archived(name) {
			if err := n.alike(name, t.files[name], true); err != nil {
				return err
			}
		}
		delete(have, name)
	}
	for _, name := range sortedKeys(have) {
		return n.alike(name, nil, false)
	}
	return nil
}

// begin: a log starts to give out what comes behind an index.
func (m *member) begin(index uint64) {
	t := m.node.world.truth
	reached := m.mirror.reached
	m.mirror = t.newMirror(t.first)
	m.mirror.reached = reached
	m.mirror.through(t, index)
}

// applied is said by the replicator.
func (m *member) applied(index uint64, state []byte) {
	touched := m.mirror.through(m.node.world.truth, index)
	running, err := replication.DecodeRunning(state)
	if err != nil {
		panic(fmt.Errorf("sim: %w", err))
	}
	if index < m.mirror.reached {
		touched = nil
	}
	m.node.world.notify(appliedHere{m.node, touched, running})
}

// restored: the files are those of another node, which may have been further than the
// snapshot says.
func (m *member) restored(s note) {
	m.restart = true
	m.begin(s.index)
	m.mirror.reached = max(m.mirror.reached, m.node.world.log.known)
}

// sharedChanged is told of each change on the disk of a node of a cluster.
func (n *node) sharedChanged(call diskCall, op, path string) {
	if call == callSync {
		return
	}
	if id, is := jobOfPath(path); is {
		text := "is gone"
		if f := n.disk.find(path); f != nil {
			r := f.reading()
			text = shownJob(r.job, r.err)
		}
		n.say(TopicFile, "job %d: %s (%s)", id, text, op)
		return
	}
	if n == n.world.charge && (path == paths.LocksJournalPath || path == paths.LocksPath) {
		n.world.notify(otherFileChanged{disk: n.disk, call: call, path: path})
	}
	if path != paths.LocksJournalPath {
		n.say(TopicDisk, "disk: %s %s (%s)", call, path, op)
	}
}
