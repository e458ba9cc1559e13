package luxi_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn/conntest"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/opcode"
	"lockstep/core/usage"
)

// usedFiles answers with the same page each time.
type usedFiles struct {
	asked usage.Query
	err   error
}

func (f *usedFiles) Page(q usage.Query, done func([]byte, error)) {
	f.asked = q
	done([]byte(`{"jobs":[],"cursor":7}`), f.err)
}

func TestWhatJobsHaveUsed(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		files := &usedFiles{}
		nobody := e.Probe("nobody")
		gateway := e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: nobody.PID, Store: nobody.PID, Catalogue: opcode.Builtin(), UsedFiles: files}))
		c := conntest.Connect(t, e, gateway)
		c.Call("LockstepUsage", `[{"since_us": 5, "cursor": 12}]`)
		require.JSONEq(t, `{"success": true, "result": {"jobs": [], "cursor": 7}}`, c.Answer())
		require.Equal(t, usage.Query{SinceUS: 5, Cursor: 12}, files.asked)
		files.err = errors.New("list queue: no such device")
		c.Call("LockstepUsage", `[{}]`)
		require.Contains(t, c.Answer(), "The files of jobs cannot be read: list queue: no such device")
		c.Call("LockstepUsage", `[{"cursor": -1}]`)
		require.Contains(t, c.Answer(), "since_us is a time, and cursor the id of a job")
	})
	onBench(t, func(t *testing.T, _ *bench, c *client) {
		c.Call("LockstepUsage", `[{}]`)
		require.Contains(t, c.Answer(), "This daemon does not read what jobs have used")
	})
}
