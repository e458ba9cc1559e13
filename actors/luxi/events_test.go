package luxi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/actors/conn/conntest"
	"lockstep/actors/events"
	"lockstep/actors/kittest"
	"lockstep/actors/luxi"
	"lockstep/core/answer"
	"lockstep/core/job"
	"lockstep/core/opcode"
	"lockstep/messages"
)

func TestEventsOfJobs(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepEvents", `[60]`)
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
		require.JSONEq(t, `{"success": true, "result": {"jobs": [], "archived": [], "missed": true}}`, c.Answer(), "the first call subscribes")

		c.Call("LockstepEvents", `[60]`)
		c.Silent()
		c.Tell(&messages.JobStatesChanged{Jobs: []*messages.JobInfo{rowOf(someJob(7, job.Running)).Info}, Archived: []int64{3}})
		answer := c.Answer()
		require.Contains(t, answer, `"id":7,"name":"","status":"running"`)
		require.Contains(t, answer, `"archived":[3],"missed":false}`)
		b.queue.Quiet()

		// Changes between two calls are kept; after the time the answer is empty.
		c.Tell(&messages.JobStatesChanged{Archived: []int64{4}})
		c.Call("LockstepEvents", `[60]`)
		require.Contains(t, c.Answer(), `"archived":[4]`)
		c.Call("LockstepEvents", `[60]`)
		b.Advance(time.Minute)
		require.Contains(t, c.Answer(), `{"jobs":[],"archived":[],"missed":false}`)

		// A restarted queue may have lost changes.
		c.Call("LockstepEvents", `[60]`)
		b.Send(b.luxi, &messages.QueueStarted{Incarnation: 2})
		require.Contains(t, c.Answer(), `"missed":true`)
		kittest.Expect[*messages.SubscribeAllJobs](b.queue)
	})
}

// A client that asks for them gets events of locks and rules, too, on its own connection.
func TestEventsOfLocksAndRules(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepEvents", `[60, ["lock", "job"]]`)
		require.Equal(t, []events.Kind{events.Locks}, kittest.Expect[*events.Subscribe](b.events).Kinds)
		require.Contains(t, c.Answer(), `"missed":true`)

		c.Call("LockstepEvents", `[60, ["lock"]]`)
		c.Silent()
		c.Tell(&events.EventPublished{Kind: events.Locks, Data: []byte(`{"owner":"12"}`)})
		require.JSONEq(t, `{"success": true, "result": {"jobs": [], "archived": [], "others": [{"kind": "lock", "data": {"owner": "12"}}], "missed": false}}`, c.Answer())
		b.events.Quiet()

		c.Call("LockstepEvents", `[60, ["lock"]]`)
		c.Tell(&events.Gap{})
		require.Contains(t, c.Answer(), `"missed":true`)

		// What a connection keeps is bounded in bytes.
		for range 4 {
			c.Tell(&events.EventPublished{Kind: events.Locks, Data: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)})
		}
		c.Call("LockstepEvents", `[60, ["lock"]]`)
		require.Contains(t, c.Answer(), `"result":{"jobs":[],"archived":[],"missed":true}`)

		c.Call("LockstepEvents", `[60, ["weather"]]`)
		require.Contains(t, c.Answer(), `there is no kind of events \"weather\"; there are [job filter lock schedule]`)
	})
}

// A client that does not fetch its changes loses them, and is told so.
func TestTooManyEvents(t *testing.T) {
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepEvents", `[0]`)
		c.Answer()
		c.Tell(&messages.JobStatesChanged{Archived: make([]int64, 10_001)})
		c.Call("LockstepEvents", `[60]`)
		require.Contains(t, c.Answer(), `"result":{"jobs":[],"archived":[],"missed":true}`)
	})
}

// reloads answers reloads of opcodes.
type reloads struct{ err error }

func (r *reloads) Reload(done func(answer.OpcodesReloaded, error)) {
	done(answer.OpcodesReloaded{Declared: 3}, r.err)
}

func TestReloadOfOpcodes(t *testing.T) {
	kittest.Run(t, func(t *testing.T, e *kittest.Env) {
		files := &reloads{}
		nobody := e.Probe("nobody")
		gateway := e.Start("luxi", luxi.Props(luxi.Config{Env: e.Env, Queue: nobody.PID, Store: nobody.PID, Catalogue: opcode.Builtin(), OpcodeFiles: files}))
		c := conntest.Connect(t, e, gateway)
		c.Call("LockstepReloadOpcodes", `[]`)
		require.JSONEq(t, `{"success": true, "result": {"declared": 3}}`, c.Answer())
		files.err = errors.New("drain.yaml:3: what is that?")
		c.Call("LockstepReloadOpcodes", `[]`)
		require.Contains(t, c.Answer(), "The former opcodes stay in force: drain.yaml:3: what is that?")
	})
	onBench(t, func(t *testing.T, b *bench, c *client) {
		c.Call("LockstepReloadOpcodes", `[]`)
		require.Contains(t, c.Answer(), `"success":false`)
	})
}
