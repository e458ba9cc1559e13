package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// The daemon records which process has submitted a job or made a rule. It takes the process
// from the socket, not from the request.
func TestWhoAskedIsRecorded(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start()
	c := d.dial()
	uid, me := fmt.Sprintf("uid=%d", os.Getuid()), fmt.Sprintf("pid=%d", os.Getpid())
	var uuid string
	c.call("ReplaceFilter", &uuid, nil, 0, []any{[]any{"jobid", []any{">", "id", "watermark"}}}, "PAUSE",
		[]any{[]any{"lockstep:user", "uid=7(forged)", 1}})
	id := c.submit(op{"OP_ID": "OP_TEST_DELAY", "duration": 0, "reason": []any{[]any{"lockstep:user", "uid=7(forged)", 1}}})
	text, err := os.ReadFile(d.path("lib", "queue", fmt.Sprintf("job-%d", id)))
	require.NoError(t, err)
	require.Contains(t, string(text), `["lockstep:user", "`+uid)
	require.Contains(t, string(text), me)
	require.NotContains(t, string(text), "forged")
	var rules [][]any
	c.call("QueryFilters", &rules, []string{uuid}, []string{"reason_trail"})
	require.Contains(t, fmt.Sprint(rules), "lockstep:user "+uid)
	require.Contains(t, fmt.Sprint(rules), me)
	require.NotContains(t, fmt.Sprint(rules), "forged")
	var why struct{ Reasons []struct{ By string } }
	c.call("LockstepWhy", &why, id)
	require.Contains(t, why.Reasons[0].By, me)
}

// With --socket-group the members of a group may submit jobs, and no other user.
func TestTheSocketsGroup(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("NOT RUN: it needs root, who can be anybody")
	}
	const group = 54321
	d := newDaemon(t)
	require.NoError(t, os.Chmod(d.root, 0o755))
	d.start("--socket-group", strconv.Itoa(group))
	client := filepath.Join(d.root, "lockstep")
	out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", client, "lockstep/cmd/lockstep").CombinedOutput()
	require.NoError(t, err, "%s", out)
	list := func(gid uint32) (string, error) {
		cmd := exec.Command(client, "list", "--socket", d.path("run", "socket", "ganeti-query"))
		cmd.Dir = d.root
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: gid}}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	text, err := list(group)
	require.NoError(t, err, text)
	text, err = list(group + 1)
	require.Error(t, err)
	require.Contains(t, text, "the members of the group 54321")
	require.NotContains(t, text, "groups root")
	for _, name := range []string{"ganeti-query", "ganeti-wconfd"} {
		info, err := os.Stat(d.path("run", "socket", name))
		require.NoError(t, err)
		require.EqualValues(t, group, info.Sys().(*syscall.Stat_t).Gid)
	}
	info, err := os.Stat(d.path("run", "livelocks"))
	require.NoError(t, err)
	require.NotEqualValues(t, group, info.Sys().(*syscall.Stat_t).Gid, "it is nothing for clients")
	require.Equal(t, 0, d.stop())
}
