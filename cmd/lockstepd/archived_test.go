package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/paths"
	"lockstep/persistence"
)

func after(id int64) op { return command("true").with("depends", [][]any{{id, []string{"success"}}}) }

// A snapshot does not contain the archive of a single node. All nodes still know how the
// archived dependencies of its jobs have ended: the daemon records it when a job is archived,
// or, for the queue of a former version, when the first node of the cluster starts.
func TestClusterOfAQueueWithArchivedDependencies(t *testing.T) {
	t.Parallel()
	addresses := loopback(t, 3)
	c := &cluster{t: t, shared: t.TempDir()}
	t.Cleanup(func() { c.remove() })
	m := c.newMember("n1", addresses[0])
	m.daemon.start() // alone
	m.up = true
	u := c.user(0)
	first := u.submit(command("true"))
	u.awaitStatus(first, "success")
	filter := u.pause()
	recorded, old := u.submit(after(first)), u.submit(after(first))
	var archived bool
	u.must("ArchiveJob", &archived, first)
	require.True(t, archived)
	u.close()
	m.end()
	require.FileExists(t, m.path("lib", paths.RecordPath(recorded)))
	require.NoError(t, os.Remove(m.path("lib", paths.RecordPath(old))), "a former version has made none")

	m.cli("node", "init", "--address", m.address, "--name", m.name, "--data-dir", m.path("lib"))
	m.start()
	c.token = m.path("token")
	for i, name := range []string{"n2", "n3"} {
		c.newToken(m)
		joins := c.newMember(name, addresses[i+1])
		joins.join(m, c.token)
		joins.start()
	}
	c.awaitVotes(3)
	late := u.submit(after(first))
	c.awaitEqual()
	last := c.nodes[2]
	require.NoFileExists(t, last.path("lib", paths.ArchivePath(first)))
	c.promote(last)

	u.must("DeleteFilter", nil, filter)
	for _, id := range []int64{recorded, old, late} {
		u.awaitStatus(id, "success")
	}
	// The record is gone and the master has no archive: a new dependent job waits.
	unknown := u.submit(after(first))
	c.eventually("the reason is not told", func() error {
		return u.reason(unknown, `[{"kind": "dependency", "opcode": 0, "job": 1, "job_status": "", "statuses": ["success"], "unknown": true}]`)
	})
	u.awaitStatus(unknown, "waiting")
	c.promote(m)
	u.awaitStatus(unknown, "success")
	c.awaitEqual()
}

// reason returns an error if the job does not wait for these reasons.
func (u *user) reason(id int64, want string) error {
	var why struct{ Reasons json.RawMessage }
	u.must("LockstepWhy", &why, id)
	return sameJSON(want, string(why.Reasons))
}

// The option --archive-days removes old archived jobs and their records. Jobs that depend on a
// removed job run, also after a restart. The daemon removes old jobs after an hour at the
// earliest; the test removes them in its place.
func TestOldArchivedJobsAreRemovedWithTheirRecords(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	first := c.submit(command("true"))
	c.await(first)
	second := c.submit(after(first))
	c.await(second)
	var filter string
	c.call("ReplaceFilter", &filter, nil, 0, [][]any{{"jobid", []any{">", "id", 0}}}, "PAUSE", []any{})
	waits := c.submit(command("true"), after(first))
	given := c.submit(after(first))
	var archived bool
	c.call("ArchiveJob", &archived, first)
	require.True(t, archived)
	c.call("CancelJob", nil, given)
	c.call("ArchiveJob", &archived, given)
	require.True(t, archived)
	require.FileExists(t, d.path("lib", paths.ArchivedRecordPath(given)))
	require.NoFileExists(t, d.path("lib", paths.RecordPath(given)))
	require.Zero(t, d.stop())

	old := time.Now().Add(-72 * time.Hour)
	for _, file := range []string{paths.ArchivePath(first), paths.ArchivePath(given)} {
		require.NoError(t, os.Chtimes(d.path("lib", file), old, old))
	}
	orphan := d.path("lib", paths.RecordPath(second))
	require.NoError(t, os.WriteFile(orphan+"00", []byte("{}\n"), 0o640), "of a job that there is not")
	removed, _, err := persistence.RemoveArchived(d.path("lib"), time.Now(), 24*time.Hour, 100)
	require.NoError(t, err)
	require.Equal(t, 2, removed)
	left, err := os.ReadDir(d.path("lib", paths.ArchiveDir, "0"))
	require.NoError(t, err)
	require.Empty(t, left, "jobs and records are removed")
	d.start("--archive-days", "1")
	require.NoFileExists(t, orphan+"00")
	c = d.dial()
	c.call("DeleteFilter", nil, filter)
	require.Equal(t, "success", c.await(waits).Status)
}

func sameJSON(want, got string) error {
	var a, b any
	if err := errors.Join(json.Unmarshal([]byte(want), &a), json.Unmarshal([]byte(got), &b)); err != nil {
		return err
	}
	if !reflect.DeepEqual(a, b) {
		return fmt.Errorf("%s is not %s", got, want)
	}
	return nil
}
