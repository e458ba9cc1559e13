package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who submits a job over the socket, or makes a rule, is recorded by the daemon: the
// process at the other end, whatever it says of itself.
func TestWhoAskedIsRecorded(t *testing.T) {
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
