package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/answer"
)

// A client of the socket gets events of locks and filter rules, without the remote API, too.
func TestEventsOverTheSocket(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.start("--rapi-address", "")
	c, watcher := d.dial(), d.dial()
	kinds := []string{answer.EventLock, answer.EventFilter}
	var first answer.JobEvents
	watcher.call("LockstepEvents", &first, 0, kinds)
	require.True(t, first.Missed)

	var uuid string
	c.call("ReplaceFilter", &uuid, nil, 5, []any{[]any{"jobid", []any{"<", "id", 1}}}, "PAUSE", []any{[]any{"test", "a test", 1}})
	id := c.submit(command("true").with("locks", [][2]string{{"lock/deploy", "exclusive"}}))
	c.await(id)
	added, held := false, false
	for !added || !held {
		var events answer.JobEvents
		watcher.call("LockstepEvents", &events, 20, kinds)
		for _, e := range events.Others {
			var rule answer.RuleEvent
			var lock answer.LockEvent
			switch e.Kind {
			case answer.EventFilter:
				require.NoError(t, json.Unmarshal(e.Data, &rule))
				added = added || rule.UUID == uuid && rule.Change == "added"
			case answer.EventLock:
				require.NoError(t, json.Unmarshal(e.Data, &lock))
				held = held || lock.Job != nil && *lock.Job == id && len(lock.Locks) > 0 && lock.Locks[len(lock.Locks)-1][0] == "lock/deploy"
			}
		}
	}
}
