package raftlog_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
