package raftlog_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/edge/raftlog/logconformance"
)

// A new node gets the entries from before its snapshot in the files only, though the leader has noted no index since. A node that
// got them as entries too would write each file twice.
func TestANewNodeGetsNoEntryOfItsSnapshot(t *testing.T) {
	c := newCluster(t)
	leader := c.startSole(t)
	for i := range uint64(50) {
		leader.log.Propose(100+i, fmt.Append(nil, "before ", i))
	}
	c.Until("all are applied", func() bool { return leader.count() == 50 })
	added := c.addVoter(leader, 1, "n2")
	added.mu.Lock()
	defer added.mu.Unlock()
	require.Equal(t, []string{"n2"}, added.entries)
}

// A node that receives a snapshot syncs before the record of the snapshot is written, because the record replaces entries, and again
// when all files are written, before the record says that the snapshot is restored.
func TestASnapshotCountsAfterTwoSyncs(t *testing.T) {
	c := newCluster(t)
	files := map[string]string{"queue/job-1": "one", "queue/job-2": "two"}
	leader := c.startRecorder("n1", logconformance.Options{Founder: true, Files: func() map[string]string { return files }})
	c.Until("it leads", leader.log.Leads)
	var n2 *recorder
	attached, seen := make(chan struct{}), []string{}
	c.sync = func(name string) error {
		if name == "n2" {
			<-attached
			n2.mu.Lock()
			defer n2.mu.Unlock()
			seen = append(seen, fmt.Sprintf("%s, %d files", c.records(name), len(n2.restore)))
		}
		return nil
	}
	n2 = c.startRecorder("n2", logconformance.Options{Files: noFiles})
	close(attached)
	c.follow(leader, n2, 1, "n2")
	n2.mu.Lock()
	defer n2.mu.Unlock()
	require.Equal(t, []string{"no record, 0 files", "a record that is pending, 2 files"}, seen[:2])
	require.Equal(t, "a record", c.records("n2"))
}

// The queue is marked as that of an index when its files are synced, and before the record: a copy of the queue without the mark is older
// than the record. An index whose mark cannot be written is not recorded.
func TestTheQueueIsMarkedBeforeTheRecord(t *testing.T) {
	c := newCluster(t)
	var mu sync.Mutex
	steps, refusal := map[string][]string{}, errors.New("no space left on device")
	step := func(name, what string) {
		steps[name] = append(steps[name], what)
	}
	c.sync = func(name string) error {
		mu.Lock()
		defer mu.Unlock()
		step(name, "sync")
		return nil
	}
	c.noting = func(name string, index uint64) error {
		mu.Lock()
		defer mu.Unlock()
		if c.isRecorded(name, index) {
			step(name, "too late")
		}
		step(name, "mark")
		return refusal
	}
	leader := c.startSole(t)
	leader.log.Propose(100, []byte("one"))
	c.Until("it is applied", func() bool { return leader.count() == 1 })
	require.ErrorContains(t, leader.log.TakeSnapshot(), "no space left on device")
	mu.Lock()
	refusal = nil
	mu.Unlock()
	require.NoError(t, leader.log.TakeSnapshot())
	require.Equal(t, []string{"sync", "mark", "sync", "mark"}, steps["n1"])

	n2 := c.startRecorder("n2", logconformance.Options{Files: noFiles})
	c.follow(leader, n2, 1, "n2")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"sync", "sync", "mark"}, steps["n2"][:3])
}

// isRecorded reports whether a node has a record of a snapshot of an index that is restored.
func (c *cluster) isRecorded(name string, index uint64) bool {
	found, err := filepath.Glob(filepath.Join(c.dir, name, "raft", "snapshots", fmt.Sprintf("%d-*.json", index)))
	require.NoError(c, err)
	return len(found) > 0 && c.records(name) == "a record"
}

// records says what the newest record of a snapshot of a node says.
func (c *cluster) records(name string) string {
	found, err := filepath.Glob(filepath.Join(c.dir, name, "raft", "snapshots", "*.json"))
	require.NoError(c, err)
	if len(found) == 0 {
		return "no record"
	}
	content, err := os.ReadFile(found[len(found)-1])
	require.NoError(c, err)
	var record struct{ Pending bool }
	require.NoError(c, json.Unmarshal(content, &record))
	if record.Pending {
		return "a record that is pending"
	}
	return "a record"
}
