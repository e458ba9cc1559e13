package jobproc

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/lock"
)

var (
	me   = lock.JobOwner(7, "/livelock/7", 77)
	noon = time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC)
)

func node(name string, mode lock.Mode) lock.Item {
	return lock.Item{Lock: lock.Member(lock.Node, name), Mode: mode}
}

func nodeRes(name string) lock.Item {
	return lock.Item{Lock: lock.Member(lock.NodeRes, name), Mode: lock.Exclusive}
}

var bgl = lock.Item{Lock: lock.BGL, Mode: lock.Shared}

// anyOfLocks needs a plain lock, two of three, and a plain one above these.
func anyOfLocks() lock.RequiredLocks {
	return lock.RequiredLocks{Request: lock.Request{bgl, nodeRes("a")}, Count: 2,
		AnyOf: []lock.Item{node("a", lock.Exclusive), node("b", lock.Exclusive), node("c", lock.Exclusive)}}
}

// requireCall compares a call with what it is as JSON.
func requireCall(t *testing.T, l *LockAcquirer, function, args string) {
	t.Helper()
	require.False(t, l.Done())
	f, a := l.NextCall()
	require.Equal(t, function, f)
	encoded, err := json.Marshal(a)
	require.NoError(t, err)
	require.JSONEq(t, args, string(encoded))
}

func requireResult(t *testing.T, l *LockAcquirer, result string, withdrawn bool) {
	t.Helper()
	got, err := l.HandleResult(json.RawMessage(result))
	require.NoError(t, err)
	require.Equal(t, withdrawn, got)
}

const mine = `[7, "/livelock/7", 77]`

func TestPlainLocksAreOneRequest(t *testing.T) {
	l := NewLockAcquirer(me, -10, lock.RequiredLocks{Request: lock.Request{bgl, node("a", lock.Exclusive), nodeRes("a")}})
	const args = `, [["cluster/BGL", "shared"], ["node/a", "exclusive"], ["node-res/a", "exclusive"]], 60]`
	requireCall(t, l, "lockstepAwaitLocks", `[`+mine+`, -10`+args)
	requireResult(t, l, `{"granted": false, "blockers": []}`, false) // the time is up
	l.Reprioritise(5)
	requireCall(t, l, "lockstepAwaitLocks", `[`+mine+`, 5`+args)
	requireResult(t, l, `{"granted": true, "blockers": []}`, false)
	require.True(t, l.Done(), "what was got in one is sure")
	require.Equal(t, []lock.Item{bgl, node("a", lock.Exclusive), nodeRes("a")}, l.Acquired())
}

func TestNothingIsNeeded(t *testing.T) {
	l := NewLockAcquirer(me, 0, lock.RequiredLocks{})
	require.True(t, l.Done())
	require.Empty(t, l.Acquired())
}

func TestARequestThatIsWithdrawn(t *testing.T) {
	l := NewLockAcquirer(me, 0, lock.RequiredLocks{Request: lock.Request{bgl}})
	requireResult(t, l, `{"granted": false, "withdrawn": true, "blockers": null}`, true)
}

func TestAnyOfIsTakenInBetween(t *testing.T) {
	l := NewLockAcquirer(me, 0, anyOfLocks())
	requireCall(t, l, "lockstepAwaitLocks", `[`+mine+`, 0, [["cluster/BGL", "shared"]], 60]`)
	requireResult(t, l, `{"granted": true}`, false)
	requireCall(t, l, "lockstepAwaitUnion", `[2, `+mine+`, [["node/a", "exclusive"], ["node/b", "exclusive"], ["node/c", "exclusive"]], 30]`)
	requireResult(t, l, `{"granted": true, "locks": [["node/a", "exclusive"], ["node/c", "exclusive"]]}`, false)
	requireCall(t, l, "lockstepAwaitLocks", `[`+mine+`, 0, [["node-res/a", "exclusive"]], 60]`)
	requireResult(t, l, `{"granted": true}`, false)
	requireCall(t, l, "listLocks", `[`+mine+`]`)
	requireResult(t, l, `[["cluster/BGL", "shared"], ["node/a", "exclusive"], ["node/c", "exclusive"], ["node-res/a", "exclusive"]]`, false)
	require.True(t, l.Done())
	require.Equal(t, []lock.Item{bgl, node("a", lock.Exclusive), node("c", lock.Exclusive), nodeRes("a")}, l.Acquired())
}

// An owner that takes only free locks may never get enough, so in the end the acquirer waits for some of them.
func TestAnyOfThatIsNeverFree(t *testing.T) {
	l := NewLockAcquirer(me, 0, lock.RequiredLocks{AnyOf: anyOfLocks().AnyOf, Count: 2})
	requireCall(t, l, "lockstepAwaitUnion", `[2, `+mine+`, [["node/a", "exclusive"], ["node/b", "exclusive"], ["node/c", "exclusive"]], 30]`)
	requireResult(t, l, `{"granted": false, "withdrawn": false, "blockers": []}`, false)
	requireCall(t, l, "lockstepAwaitLocks", `[`+mine+`, 0, [["node/a", "exclusive"], ["node/b", "exclusive"]], 60]`)
	requireResult(t, l, `{"granted": true}`, false)
	require.True(t, l.Done())
	require.Equal(t, []lock.Item{node("a", lock.Exclusive), node("b", lock.Exclusive)}, l.Acquired())
}

func TestAnyOfThatIsWithdrawn(t *testing.T) {
	l := NewLockAcquirer(me, 0, anyOfLocks())
	requireResult(t, l, `{"granted": true}`, false)
	requireResult(t, l, `{"granted": false, "withdrawn": true, "blockers": null}`, true)
}

func TestMoreIsDemandedThanThereIs(t *testing.T) {
	for count, want := range map[int]string{-1: "1", 0: "1", 2: "2", 9: "3"} {
		l := NewLockAcquirer(me, 0, lock.RequiredLocks{AnyOf: anyOfLocks().AnyOf, Count: count})
		requireCall(t, l, "lockstepAwaitUnion", `[`+want+`, `+mine+`, [["node/a", "exclusive"], ["node/b", "exclusive"], ["node/c", "exclusive"]], 30]`)
	}
}

// The daemon has withdrawn a request, and with it the locks of earlier requests, and its answer is lost. The locks of the
// last request alone must not count as all required locks.
func TestAWithdrawalWhoseAnswerIsLost(t *testing.T) {
	begun := func() *LockAcquirer {
		l := NewLockAcquirer(me, 0, anyOfLocks())
		requireResult(t, l, `{"granted": true}`, false)
		return l
	}
	const chosen = `{"granted": true, "locks": [["node/a", "exclusive"], ["node/c", "exclusive"]]}`
	l := begun() // before the answer to a request for some locks of a list
	requireResult(t, l, chosen, false)
	requireResult(t, l, `{"granted": true}`, false)
	require.False(t, l.Done())
	requireCall(t, l, "listLocks", `[`+mine+`]`)
	requireResult(t, l, `[["node-res/a", "exclusive"]]`, true)

	l = begun() // one of the granted locks is held in a weaker mode
	requireResult(t, l, chosen, false)
	requireResult(t, l, `{"granted": true}`, false)
	requireResult(t, l, `[["cluster/BGL", "shared"], ["node/a", "exclusive"], ["node/c", "shared"], ["node-res/a", "exclusive"]]`, true)
}

func TestAnswersThatAreNone(t *testing.T) {
	l := NewLockAcquirer(me, 0, anyOfLocks())
	_, err := l.HandleResult(json.RawMessage(`[]`))
	require.ErrorContains(t, err, "the answer to a request for locks")
	requireResult(t, l, `{"granted": true}`, false)
	_, err = l.HandleResult(json.RawMessage(`[]`))
	require.ErrorContains(t, err, "the answer to a request for locks")
	requireResult(t, l, `{"granted": true}`, false)
	requireResult(t, l, `{"granted": true}`, false)
	_, err = l.HandleResult(json.RawMessage(`{}`))
	require.ErrorContains(t, err, "the list of held locks")
}

// manager is a lock manager behind a network that loses calls and answers. Other owners take and release locks meanwhile.
type manager struct {
	state    *lock.State
	required lock.RequiredLocks
	others   []lock.Owner
	calm     bool // no other owner takes locks, and no call is lost
}

func (m *manager) check(t *rapid.T, got []lock.Item) {
	held := map[lock.Lock]lock.Mode{}
	for _, i := range m.state.Allocation().Held(me) {
		held[i.Lock] = i.Mode
	}
	for _, i := range append(got, m.required.Request...) {
		require.GreaterOrEqual(t, held[i.Lock], i.Mode, "%s", i.Lock)
	}
	enough := 0
	for _, i := range m.required.AnyOf {
		if held[i.Lock] >= i.Mode {
			enough++
		}
	}
	require.GreaterOrEqual(t, enough, min(max(m.required.Count, 1), len(m.required.AnyOf)))
}

// disturb makes another owner take one or two locks, or release all.
func (m *manager) disturb(t *rapid.T) {
	o := rapid.SampledFrom(m.others).Draw(t, "other")
	if m.calm || rapid.Bool().Draw(t, "free") {
		m.state.Release(noon, o)
		return
	}
	i := rapid.SampledFrom(append(m.required.Request, m.required.AnyOf...)).Draw(t, "item")
	mode := rapid.SampledFrom([]lock.Mode{lock.Shared, lock.Exclusive}).Draw(t, "mode")
	_, _ = m.state.UpdateWaiting(noon, lock.Pending{Owner: o, Request: lock.Request{{Lock: i.Lock, Mode: mode}}})
}

// serve executes a call; nil is no answer yet.
func (m *manager) serve(t *rapid.T, function string, args []any) json.RawMessage {
	raw := make([]json.RawMessage, len(args))
	for i, arg := range args {
		encoded, err := json.Marshal(arg)
		require.NoError(t, err)
		raw[i] = encoded
	}
	if function == "lockstepAwaitUnion" {
		return m.serveChoice(t, raw)
	}
	if function != "lockstepAwaitLocks" {
		call, err := lock.ParseCall(function, raw)
		require.NoError(t, err)
		answer, err := call.Do(m.state, noon)
		require.NoError(t, err)
		encoded, err := json.Marshal(answer.Result)
		require.NoError(t, err)
		return encoded
	}
	var seconds float64
	p, err := lock.PendingArguments(raw, &seconds)
	require.NoError(t, err)
	update, err := m.state.SafeUpdateWaiting(noon, p)
	require.NoError(t, err, "asked for in a wrong order")
	for !update.Granted && m.state.HasPending(me) {
		m.disturb(t)
		switch {
		case m.calm:
		case rapid.IntRange(0, 9).Draw(t, "time is up") == 0:
			return json.RawMessage(`{"granted": false, "blockers": []}`)
		case rapid.IntRange(0, 9).Draw(t, "withdraw") == 0:
			m.state.Release(noon, me)
			return json.RawMessage(`{"granted": false, "withdrawn": true, "blockers": null}`)
		}
	}
	return json.RawMessage(`{"granted": true, "blockers": []}`)
}

// serveChoice executes lockstepAwaitUnion.
func (m *manager) serveChoice(t *rapid.T, raw []json.RawMessage) json.RawMessage {
	var seconds float64
	o, count, items, err := lock.ChoiceArguments(raw, &seconds)
	require.NoError(t, err)
	update, err := m.state.Choose(noon, o, count, items)
	require.NoError(t, err, "asked for in a wrong order")
	for !update.Granted && m.state.Choosing(me) {
		m.disturb(t)
		switch {
		case m.calm:
		case rapid.IntRange(0, 9).Draw(t, "time is up") == 0:
			m.state.DropChoice(me)
			return json.RawMessage(`{"granted": false, "blockers": []}`)
		case rapid.IntRange(0, 9).Draw(t, "withdraw") == 0:
			m.state.Release(noon, me)
			return json.RawMessage(`{"granted": false, "withdrawn": true, "blockers": null}`)
		}
	}
	var chosen []lock.Item
	for _, held := range m.state.Allocation().Held(me) {
		for _, i := range items {
			if i.Lock == held.Lock && i.Mode <= held.Mode {
				chosen = append(chosen, held)
			}
		}
	}
	encoded, err := json.Marshal(map[string]any{"granted": true, "locks": chosen})
	require.NoError(t, err)
	return encoded
}

var errLost = errors.New("lost")

// call is serve over the network.
func (m *manager) call(t *rapid.T, function string, args []any) (json.RawMessage, error) {
	const fine, questionLost, answerLost, twice = 0, 1, 2, 3
	fate := fine
	if !m.calm {
		fate = rapid.IntRange(fine, twice).Draw(t, "fate")
	}
	if fate == questionLost {
		return nil, errLost
	}
	result := m.serve(t, function, args)
	switch fate {
	case answerLost:
		return nil, errLost
	case twice: // of two answers the first was lost
		result = m.serve(t, function, args)
		if rapid.Bool().Draw(t, "and the other one") {
			return nil, errLost
		}
	}
	return result, nil
}

func drawRequiredLocks(t *rapid.T) lock.RequiredLocks {
	var n lock.RequiredLocks
	for _, i := range []lock.Item{bgl, {Lock: lock.Member(lock.Instance, "i"), Mode: lock.Shared}, nodeRes("a"), nodeRes("b")} {
		if rapid.Bool().Draw(t, i.Lock.String()) {
			n.Request = append(n.Request, i)
		}
	}
	if rapid.Bool().Draw(t, "choice") {
		mode := rapid.SampledFrom([]lock.Mode{lock.Shared, lock.Exclusive}).Draw(t, "mode of the choice")
		n.AnyOf = []lock.Item{node("a", mode), node("b", mode), node("c", mode)}[:rapid.IntRange(1, 3).Draw(t, "names")]
		n.Count = rapid.IntRange(0, 4).Draw(t, "count")
	} else {
		n.Request = lock.Request(insertSorted(n.Request, node("a", lock.Exclusive)))
	}
	return n
}

func insertSorted(items []lock.Item, i lock.Item) (all []lock.Item) {
	for _, k := range items {
		if i.Lock != (lock.Lock{}) && i.Compare(k) < 0 {
			all, i = append(all, i), lock.Item{}
		}
		all = append(all, k)
	}
	if i.Lock != (lock.Lock{}) {
		all = append(all, i)
	}
	return all
}

// Calls and answers are lost, repeated and withdrawn. In the end all required locks are held, and each request was legal
// when it was made.
func TestLockingOverABadNetwork(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &manager{state: lock.New(lock.Settings{Hierarchy: lock.Implied}), required: drawRequiredLocks(t),
			others: []lock.Owner{lock.JobOwner(1, "/livelock/1", 71), lock.JobOwner(2, "/livelock/2", 72)}}
		disturbances := rapid.IntRange(0, 60).Draw(t, "calls before it is calm")
		l := NewLockAcquirer(me, 0, m.required)
		for calls := 0; !l.Done(); calls++ {
			m.calm = calls >= disturbances
			require.Less(t, calls, disturbances+60, "it does not come to an end")
			if !m.calm {
				m.disturb(t)
			}
			function, args := l.NextCall()
			result, err := m.call(t, function, args)
			if err != nil {
				continue
			}
			withdrawn, err := l.HandleResult(result)
			require.NoError(t, err)
			if withdrawn { // the process releases all locks, and begins again
				m.state.Release(noon, me)
				l = NewLockAcquirer(me, 0, m.required)
			}
		}
		m.check(t, l.Acquired())
	})
}
