package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	coreaudit "lockstep/core/audit"
	"lockstep/core/paths"
)

// auditLog is what lockstep audit prints, without the times.
func (d *daemon) auditLog(flags ...string) (lines []string) {
	d.t.Helper()
	out, code := d.client(append([]string{"audit"}, flags...)...)
	require.Zero(d.t, code, out)
	for line := range strings.Lines(out) {
		_, text, _ := strings.Cut(strings.TrimSpace(line), "  ")
		lines = append(lines, text)
	}
	return lines
}

// Each change is in the log with its user, before the client has its answer, and survives the death of the daemon.
func TestTheAuditLogSurvivesTheDaemon(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	queued := c.submit(command("true").with("depends", []any{[]any{id, []string{"success"}}}))
	for _, args := range [][]string{
		{"cancel", fmt.Sprint(queued)},
		{"config", "set", "max_running_jobs=7"},
		{"filter", "add", "--action", "PAUSE", "--opcode", "OP_TEST_DELAY"},
		{"drain", "on"},
	} {
		out, code := d.client(args...)
		require.Zero(t, code, out)
	}
	user := "root"
	if os.Getuid() != 0 {
		user = ""
	}
	want := []string{
		fmt.Sprintf("asked to cancel job %d", queued), "asked to change settings: max_running_jobs = 7",
		"asked to add a filter rule: priority 0, predicates", "asked to drain the queue",
	}
	check := func(lines []string) {
		t.Helper()
		require.Len(t, lines, len(want), "%q", lines)
		for i := range want {
			require.Contains(t, lines[i], want[i])
			require.True(t, strings.HasPrefix(lines[i], user), lines[i])
		}
	}
	check(d.auditLog())
	d.kill()
	info, err := os.Stat(d.path("lib", "audit"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	info, err = os.Stat(d.path("lib", paths.AuditPath(1)))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	d.start()
	check(d.auditLog())
	require.Equal(t, d.auditLog()[1:2], d.auditLog("--limit", "3")[:1])
	out, _ := d.client("audit", "--user", "no-such-user")
	require.Equal(t, "no entries\n", out)
	open()
	d.dial().await(id)

	// A data directory of an earlier version has no such directory.
	require.Equal(t, 0, d.stop())
	require.NoError(t, os.RemoveAll(d.path("lib", "audit")))
	d.start()
	_, code := d.client("drain", "off")
	require.Zero(t, code)
	require.Len(t, d.auditLog(), 1)
}

// A follower gets an entry as soon as it is there.
func TestTheAuditLogIsFollowed(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c, other := d.dial(), d.dial()
	pages := make(chan coreaudit.Page, 1)
	go func() {
		var page coreaudit.Page
		_ = c.Call(context.Background(), "LockstepAudit", []any{map[string]any{"after": 0}, 30}, &page)
		pages <- page
	}()
	other.call("SetDrainFlag", nil, true)
	select {
	case page := <-pages:
		require.Len(t, page.Entries, 1)
		require.Equal(t, "drain the queue", page.Entries[0].What)
	case <-time.After(patience):
		require.Fail(t, "no entry")
	}
}

// On a full disk changes are refused with the reason, a job can be canceled, and the status says so.
func TestTheAuditLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	fill, free := d.smallDataDisk("4m")
	d.start()
	c := d.dial()
	work, open := d.gate("gate")
	id := c.submit(work)
	c.awaitStatus(id, "running")
	fill()
	err := c.Call(context.Background(), "SetDrainFlag", []any{true}, nil)
	require.ErrorContains(t, err, "Nothing was changed, because the audit log cannot be written")
	require.ErrorContains(t, err, "no space left on device")
	var status struct {
		Failing []struct{ Text string } `json:"cannot_write"`
	}
	c.call("LockstepStatus", &status)
	text, err := json.Marshal(status)
	require.NoError(t, err)
	require.Contains(t, string(text), "audit/audit-1")
	killed := make(chan error, 1)
	go func() { killed <- d.dial().Call(context.Background(), "CancelJob", []any{id, true}, nil) }()
	require.Eventually(t, func() bool { return strings.Contains(d.logged(), "the author of a cancel cannot be recorded") }, patience, 10*time.Millisecond)
	free()
	require.NoError(t, <-killed)
	require.Equal(t, "error", c.await(id).Status)
	open()
	c.call("SetDrainFlag", nil, true)
	whats := slices.DeleteFunc(d.auditLog(), func(line string) bool { return !strings.Contains(line, "asked to") })
	require.Len(t, whats, 2, "the kill, which was done, and the second drain: %q", whats)
}

// The entries of a master that dies are at the next one.
func TestClusterKeepsTheAuditLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	u := c.user(0)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, u.call(ctx, "SetDrainFlag", nil, true))
	master := c.master()
	master.crash()
	require.NoError(t, u.call(ctx, "SetDrainFlag", nil, false))
	var page coreaudit.Page
	require.NoError(t, u.call(ctx, "LockstepAudit", &page, map[string]any{}))
	var whats []string
	for i, e := range page.Entries {
		require.Equal(t, uint64(i+1), e.Number)
		whats = append(whats, e.What)
	}
	require.Equal(t, "drain the queue", whats[0])
	require.Equal(t, "undrain the queue", whats[len(whats)-1])
	master.start()
	c.awaitEqual()
}
