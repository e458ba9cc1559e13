package jobproc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

var needy = Hand{Needs: lock.Needs{Request: lock.Request{bgl}}}

// withHands is a machine for a job with an opcode for each hand.
func withHands(t require.TestingT, hands ...Hand) *Machine {
	m, err := New(newJob(len(hands)), hands)
	require.NoError(t, err)
	return m
}

func statuses(m *Machine) []job.Status {
	var all []job.Status
	for i := range m.Job().Ops {
		all = append(all, m.Job().Ops[i].Status)
	}
	return all
}

func TestLocksAreTakenAndGivenBack(t *testing.T) {
	m := withHands(t, needy, Hand{}, needy)
	require.Equal(t, Next{Write: Visible, Do: Begin, Op: 0}, m.Start(at(1)))
	require.Equal(t, Next{Do: Lock, Op: 0}, m.Began(at(2)))
	require.Equal(t, job.Waiting, m.Job().Status(), "while it waits for locks")
	require.Equal(t, Next{Write: Visible, Do: Execute, Op: 0}, m.Locked(at(3)))
	require.Equal(t, at(3), m.Job().Ops[0].Exec)
	require.Equal(t, Next{Write: Recorded, Free: true, Do: Begin, Op: 1}, m.Done(Outcome{}, at(4)))
	require.Equal(t, Next{Write: Visible, Do: Execute, Op: 1}, m.Began(at(5)))
	require.Equal(t, Next{Write: Recorded, Do: Begin, Op: 2}, m.Done(Outcome{}, at(6)), "there is nothing to give back")
	m.Began(at(7))
	m.Locked(at(8))
	require.Equal(t, Next{Write: Durable, Free: true, Do: Exit, Op: 2}, m.Done(Outcome{}, at(9)))
	require.Equal(t, []job.Status{job.Success, job.Success, job.Success}, statuses(m))
}

// A job that is paused while it waits for locks waits for permission again.
func TestALockRequestThatIsWithdrawn(t *testing.T) {
	m := withHands(t, needy)
	m.Start(at(1))
	for second := range int64(3) {
		m.Began(at(second))
		require.Equal(t, Next{Free: true, Do: Begin, Op: 0}, m.Withdrawn())
		require.Equal(t, []job.Status{job.Waiting}, statuses(m))
		require.Equal(t, at(1), m.Job().Ops[0].Start)
	}
	require.Equal(t, Next{Do: Lock, Op: 0}, m.Began(at(5)))
	require.Equal(t, Next{Write: Visible, Do: Execute, Op: 0}, m.Locked(at(6)))
}

func TestACancelEndsTheWaitForLocks(t *testing.T) {
	m := withHands(t, Hand{}, needy, Hand{})
	m.Start(at(1))
	m.Began(at(2))
	m.Done(Outcome{}, at(3))
	m.Began(at(4))
	require.Equal(t, Next{Write: Durable, Free: true, Do: Exit, Op: 1}, m.Cancel(at(5)))
	require.Equal(t, []job.Status{job.Success, job.Canceled, job.Canceled}, statuses(m))
	require.Equal(t, at(5), m.Job().End)
}

// The daemon knows beforehand that an opcode cannot run. Those before it do.
func TestAnOpcodeThatTheDaemonRefuses(t *testing.T) {
	refused := Hand{Refused: job.ErrorResult("OpPrereqError", "Node 'x' is not known", "unknown_entity")}
	m := withHands(t, Hand{}, refused, Hand{})
	m.Start(at(1))
	m.Began(at(2))
	m.Done(Outcome{}, at(3))
	require.Equal(t, Next{Write: Durable, Do: Exit, Op: 1}, m.Began(at(4)))
	require.Equal(t, []job.Status{job.Success, job.Error, job.Error}, statuses(m))
	require.JSONEq(t, `["OpPrereqError", ["Node 'x' is not known", "unknown_entity"]]`, string(m.Job().Ops[1].Result))
	require.JSONEq(t, `["OpExecError", ["Preceding opcode failed"]]`, string(m.Job().Ops[2].Result))
}

func TestPermissionThatWillNeverCome(t *testing.T) {
	for name, c := range map[string]struct {
		refusal Refusal
		status  job.Status
		result  string
		next    string
	}{
		"it fails":       {Refusal{Text: "job 1 ended badly"}, job.Error, `["OpExecError", ["Dependency error: job 1 ended badly"]]`, `["OpExecError", ["Preceding opcode failed"]]`},
		"it is canceled": {Refusal{Canceled: true, Text: "job 1 was canceled"}, job.Canceled, `"Job canceled: job 1 was canceled"`, `"Job canceled: job 1 was canceled"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := withHands(t, Hand{}, needy, Hand{})
			m.Start(at(1))
			m.Began(at(2))
			m.Done(Outcome{}, at(3))
			next := m.Refused(c.refusal, at(4))
			require.Equal(t, Next{Write: Durable, Free: true, Do: Exit, Op: 1}, next)
			require.Equal(t, []job.Status{job.Success, c.status, c.status}, statuses(m))
			require.JSONEq(t, c.result, string(m.Job().Ops[1].Result))
			require.JSONEq(t, c.next, string(m.Job().Ops[2].Result))
			require.Equal(t, at(4), m.Job().End)
			require.Equal(t, c.status, m.Job().Status())
		})
	}
}

// Locks that cannot be had, for good, are the end.
func TestARefusalWhileItWaitsForLocks(t *testing.T) {
	m := withHands(t, needy)
	m.Start(at(1))
	m.Began(at(2))
	require.Equal(t, Next{Write: Durable, Free: true, Do: Exit, Op: 0}, m.Refuse(job.ErrorResult("LockError", "no"), at(3)))
	require.Equal(t, job.Error, m.Job().Status())
}

func TestAPriorityWhileItWaitsForLocks(t *testing.T) {
	m := withHands(t, needy)
	m.Start(at(1))
	m.Began(at(2))
	require.Equal(t, Next{Write: Recorded}, m.Reprioritise(-3))
	require.Equal(t, -3, m.Job().Ops[0].Priority)
	require.Equal(t, Next{Write: Visible, Do: Execute, Op: 0}, m.Locked(at(3)))
	require.Equal(t, Next{Write: Durable, Free: true, Do: Exit, Op: 0}, m.Done(Outcome{}, at(4)))
	require.Equal(t, Next{}, m.Reprioritise(4), "after the end")
}

// There may be fewer hands than opcodes: what is missing is nothing.
func TestHandsThatAreMissing(t *testing.T) {
	m, err := New(newJob(2), []Hand{needy})
	require.NoError(t, err)
	require.Equal(t, needy, m.Hand(0))
	require.Equal(t, Hand{}, m.Hand(1))
}

func TestHandsOnTheWire(t *testing.T) {
	for encoded, h := range map[string]Hand{
		`{}`: {},
		`{"secrets":{"a":"b"},"command":{"argv":["x"]}}`:                          {Secrets: json.RawMessage(`{"a":"b"}`), Command: json.RawMessage(`{"argv":["x"]}`)},
		`{"needs":{"locks":[["cluster/BGL","shared"]]}}`:                          needy,
		`{"needs":{"any_of":[["node/a","exclusive"]],"count":2},"refused":["x"]}`: {Refused: json.RawMessage(`["x"]`), Needs: lock.Needs{AnyOf: []lock.Item{node("a", lock.Exclusive)}, Count: 2}},
	} {
		data, err := json.Marshal(h)
		require.NoError(t, err)
		require.Equal(t, encoded, string(data))
		var back Hand
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, h, back)
	}
	var hands []Hand
	require.NoError(t, json.Unmarshal([]byte(`[null, {"secrets": {}}]`), &hands))
	require.Equal(t, []Hand{{}, {Secrets: json.RawMessage(`{}`)}}, hands)
}

func TestLockEventsOutOfPlacePanic(t *testing.T) {
	begun := func(m *Machine) { m.Start(at(1)); m.Began(at(1)) }
	for name, event := range map[string]func(*Machine){
		"locked before it began":      func(m *Machine) { m.Start(at(1)); m.Locked(at(2)) },
		"withdrawn before it began":   func(m *Machine) { m.Start(at(1)); m.Withdrawn() },
		"locked twice":                func(m *Machine) { begun(m); m.Locked(at(2)); m.Locked(at(3)) },
		"withdrawn while it executes": func(m *Machine) { begun(m); m.Locked(at(2)); m.Withdrawn() },
		"refused while it locks":      func(m *Machine) { begun(m); m.Refused(Refusal{}, at(2)) },
		"refused while it executes":   func(m *Machine) { begun(m); m.Locked(at(2)); m.Refuse(nil, at(3)) },
		"done while it locks":         func(m *Machine) { begun(m); m.Done(Outcome{}, at(2)) },
		"begun twice":                 func(m *Machine) { begun(m); m.Began(at(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			require.Panics(t, func() { event(withHands(t, needy)) })
		})
	}
}

// Whatever happens, no opcode executes without its locks, what was taken is given
// back before the next opcode begins, and a cancel before the last step wins.
func TestLocksAreHeldWhileAnOpcodeExecutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var hands []Hand
		for range rapid.IntRange(1, 4).Draw(t, "opcodes") {
			hands = append(hands, rapid.SampledFrom([]Hand{{}, needy, {Refused: job.ErrorResult("X", "y")}}).Draw(t, "hand"))
		}
		m := withHands(t, hands...)
		held, next := false, m.Start(at(1))
		for next.Do != Exit {
			if next.Free {
				held = false
			}
			if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
				if canceled := m.Cancel(at(2)); canceled.Do == Exit {
					next = canceled
					require.Equal(t, job.Canceled, m.Job().Status())
					continue
				}
			}
			switch next.Do {
			case Begin:
				require.False(t, held)
				if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
					next = m.Refused(Refusal{Canceled: rapid.Bool().Draw(t, "canceled")}, at(2))
				} else {
					next = m.Began(at(2))
				}
			case Lock:
				held = true // or a part
				if rapid.Bool().Draw(t, "withdrawn") {
					next = m.Withdrawn()
				} else {
					next = m.Locked(at(3))
				}
			case Execute:
				require.Equal(t, hands[next.Op].Needs.Any(), held)
				require.Nil(t, hands[next.Op].Refused)
				next = m.Done(Outcome{Failed: rapid.IntRange(0, 9).Draw(t, "failed") == 0}, at(4))
			}
		}
		require.True(t, next.Free || !held, "what is held is given back at the end")
		require.Equal(t, Durable, next.Write)
		require.True(t, m.Job().Status().Final())
	})
}
