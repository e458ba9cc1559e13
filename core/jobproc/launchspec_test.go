package jobproc

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/lock"
)

var specWithLocks = LaunchSpec{RequiredLocks: lock.RequiredLocks{Request: lock.Request{bgl}}}

// withSpecs is a machine for a job with an opcode for each LaunchSpec.
func withSpecs(t require.TestingT, specs ...LaunchSpec) *Machine {
	m, err := New(newJob(len(specs)), specs)
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
	m := withSpecs(t, specWithLocks, LaunchSpec{}, specWithLocks)
	require.Equal(t, Step{Write: Visible, Action: Begin, Op: 0}, m.Start(at(1)))
	require.Equal(t, Step{Action: Lock, Op: 0}, m.Permitted(at(2)))
	require.Equal(t, job.Waiting, m.Job().Status(), "while it waits for locks")
	require.Equal(t, Step{Write: Visible, Action: Execute, Op: 0}, m.LocksAcquired(at(3)))
	require.Equal(t, at(3), m.Job().Ops[0].Exec)
	require.Equal(t, Step{Write: Recorded, ReleaseLocks: true, Action: Begin, Op: 1}, m.Done(Outcome{}, at(4)))
	require.Equal(t, Step{Write: Visible, Action: Execute, Op: 1}, m.Permitted(at(5)))
	require.Equal(t, Step{Write: Recorded, Action: Begin, Op: 2}, m.Done(Outcome{}, at(6)), "there is nothing to give back")
	m.Permitted(at(7))
	m.LocksAcquired(at(8))
	require.Equal(t, Step{Write: Durable, ReleaseLocks: true, Action: Exit, Op: 2}, m.Done(Outcome{}, at(9)))
	require.Equal(t, []job.Status{job.Success, job.Success, job.Success}, statuses(m))
}

// A job that is paused while it waits for locks waits for permission again.
func TestALockRequestThatIsWithdrawn(t *testing.T) {
	m := withSpecs(t, specWithLocks)
	m.Start(at(1))
	for second := range int64(3) {
		m.Permitted(at(second))
		require.Equal(t, Step{ReleaseLocks: true, Action: Begin, Op: 0}, m.LocksWithdrawn())
		require.Equal(t, []job.Status{job.Waiting}, statuses(m))
		require.Equal(t, at(1), m.Job().Ops[0].Start)
	}
	require.Equal(t, Step{Action: Lock, Op: 0}, m.Permitted(at(5)))
	require.Equal(t, Step{Write: Visible, Action: Execute, Op: 0}, m.LocksAcquired(at(6)))
}

func TestACancelEndsTheWaitForLocks(t *testing.T) {
	m := withSpecs(t, LaunchSpec{}, specWithLocks, LaunchSpec{})
	m.Start(at(1))
	m.Permitted(at(2))
	m.Done(Outcome{}, at(3))
	m.Permitted(at(4))
	require.Equal(t, Step{Write: Durable, ReleaseLocks: true, Action: Exit, Op: 1}, m.Cancel(at(5)))
	require.Equal(t, []job.Status{job.Success, job.Canceled, job.Canceled}, statuses(m))
	require.Equal(t, at(5), m.Job().End)
}

// The daemon knows before the start that an opcode cannot run. Earlier opcodes run.
func TestAnOpcodeThatTheDaemonRefuses(t *testing.T) {
	refused := LaunchSpec{FailureResult: job.ErrorResult("OpPrereqError", "Node 'x' is not known", "unknown_entity")}
	m := withSpecs(t, LaunchSpec{}, refused, LaunchSpec{})
	m.Start(at(1))
	m.Permitted(at(2))
	m.Done(Outcome{}, at(3))
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 1}, m.Permitted(at(4)))
	require.Equal(t, []job.Status{job.Success, job.Error, job.Error}, statuses(m))
	require.JSONEq(t, `["OpPrereqError", ["Node 'x' is not known", "unknown_entity"]]`, string(m.Job().Ops[1].Result))
	require.JSONEq(t, `["OpExecError", ["Preceding opcode failed"]]`, string(m.Job().Ops[2].Result))
}

func TestPermissionThatWillNeverCome(t *testing.T) {
	for name, c := range map[string]struct {
		refusal Denial
		status  job.Status
		result  string
		next    string
	}{
		"it fails":       {Denial{Text: "job 1 ended badly"}, job.Error, `["OpExecError", ["Dependency error: job 1 ended badly"]]`, `["OpExecError", ["Preceding opcode failed"]]`},
		"it is canceled": {Denial{Canceled: true, Text: "job 1 was canceled"}, job.Canceled, `"Job canceled: job 1 was canceled"`, `"Job canceled: job 1 was canceled"`},
	} {
		t.Run(name, func(t *testing.T) {
			m := withSpecs(t, LaunchSpec{}, specWithLocks, LaunchSpec{})
			m.Start(at(1))
			m.Permitted(at(2))
			m.Done(Outcome{}, at(3))
			next := m.Denied(c.refusal, at(4))
			require.Equal(t, Step{Write: Durable, ReleaseLocks: true, Action: Exit, Op: 1}, next)
			require.Equal(t, []job.Status{job.Success, c.status, c.status}, statuses(m))
			require.JSONEq(t, c.result, string(m.Job().Ops[1].Result))
			require.JSONEq(t, c.next, string(m.Job().Ops[2].Result))
			require.Equal(t, at(4), m.Job().End)
			require.Equal(t, c.status, m.Job().Status())
		})
	}
}

// A permanent refusal of the locks ends the job.
func TestARefusalWhileItWaitsForLocks(t *testing.T) {
	m := withSpecs(t, specWithLocks)
	m.Start(at(1))
	m.Permitted(at(2))
	require.Equal(t, Step{Write: Durable, ReleaseLocks: true, Action: Exit, Op: 0}, m.FailBeforeStart(job.ErrorResult("LockError", "no"), at(3)))
	require.Equal(t, job.Error, m.Job().Status())
}

func TestAPriorityWhileItWaitsForLocks(t *testing.T) {
	m := withSpecs(t, specWithLocks)
	m.Start(at(1))
	m.Permitted(at(2))
	require.Equal(t, Step{Write: Recorded}, m.Reprioritise(-3))
	require.Equal(t, -3, m.Job().Ops[0].Priority)
	require.Equal(t, Step{Write: Visible, Action: Execute, Op: 0}, m.LocksAcquired(at(3)))
	require.Equal(t, Step{Write: Durable, ReleaseLocks: true, Action: Exit, Op: 0}, m.Done(Outcome{}, at(4)))
	require.Panics(t, func() { m.Reprioritise(4) }, "after the end")
}

// There may be fewer specs than opcodes: a missing one is empty.
func TestMissingLaunchSpecs(t *testing.T) {
	m, err := New(newJob(2), []LaunchSpec{specWithLocks})
	require.NoError(t, err)
	require.Equal(t, specWithLocks, m.Spec(0))
	require.Equal(t, LaunchSpec{}, m.Spec(1))
}

func TestLaunchSpecsAsJSON(t *testing.T) {
	for encoded, h := range map[string]LaunchSpec{
		`{}`: {},
		`{"secrets":{"a":"b"},"command":{"argv":["x"]}}`:                          {Secrets: json.RawMessage(`{"a":"b"}`), Command: json.RawMessage(`{"argv":["x"]}`)},
		`{"needs":{"locks":[["cluster/BGL","shared"]]}}`:                          specWithLocks,
		`{"needs":{"any_of":[["node/a","exclusive"]],"count":2},"refused":["x"]}`: {FailureResult: json.RawMessage(`["x"]`), RequiredLocks: lock.RequiredLocks{AnyOf: []lock.Item{node("a", lock.Exclusive)}, Count: 2}},
	} {
		data, err := json.Marshal(h)
		require.NoError(t, err)
		require.Equal(t, encoded, string(data))
		var back LaunchSpec
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, h, back)
	}
	var specs []LaunchSpec
	require.NoError(t, json.Unmarshal([]byte(`[null, {"secrets": {}}]`), &specs))
	require.Equal(t, []LaunchSpec{{}, {Secrets: json.RawMessage(`{}`)}}, specs)
}

func TestLockEventsOutOfPlacePanic(t *testing.T) {
	begun := func(m *Machine) { m.Start(at(1)); m.Permitted(at(1)) }
	for name, event := range map[string]func(*Machine){
		"locked before it began":      func(m *Machine) { m.Start(at(1)); m.LocksAcquired(at(2)) },
		"withdrawn before it began":   func(m *Machine) { m.Start(at(1)); m.LocksWithdrawn() },
		"locked twice":                func(m *Machine) { begun(m); m.LocksAcquired(at(2)); m.LocksAcquired(at(3)) },
		"withdrawn while it executes": func(m *Machine) { begun(m); m.LocksAcquired(at(2)); m.LocksWithdrawn() },
		"refused while it locks":      func(m *Machine) { begun(m); m.Denied(Denial{}, at(2)) },
		"refused while it executes":   func(m *Machine) { begun(m); m.LocksAcquired(at(2)); m.FailBeforeStart(nil, at(3)) },
		"done while it locks":         func(m *Machine) { begun(m); m.Done(Outcome{}, at(2)) },
		"begun twice":                 func(m *Machine) { begun(m); m.Permitted(at(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			require.Panics(t, func() { event(withSpecs(t, specWithLocks)) })
		})
	}
}

// In any order of events, no opcode executes without its locks, the locks are released before the next opcode begins, and a
// cancel before the last step cancels the job.
func TestLocksAreHeldWhileAnOpcodeExecutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var specs []LaunchSpec
		for range rapid.IntRange(1, 4).Draw(t, "opcodes") {
			specs = append(specs, rapid.SampledFrom([]LaunchSpec{{}, specWithLocks, {FailureResult: job.ErrorResult("X", "y")}}).Draw(t, "hand"))
		}
		m := withSpecs(t, specs...)
		held, next := false, m.Start(at(1))
		for next.Action != Exit {
			if next.ReleaseLocks {
				held = false
			}
			if rapid.IntRange(0, 9).Draw(t, "cancel") == 0 {
				if canceled := m.Cancel(at(2)); canceled.Action == Exit {
					next = canceled
					require.Equal(t, job.Canceled, m.Job().Status())
					continue
				}
			}
			switch next.Action {
			case Begin:
				require.False(t, held)
				if rapid.IntRange(0, 9).Draw(t, "refused") == 0 {
					next = m.Denied(Denial{Canceled: rapid.Bool().Draw(t, "canceled")}, at(2))
				} else {
					next = m.Permitted(at(2))
				}
			case Lock:
				held = true // or a part
				if rapid.Bool().Draw(t, "withdrawn") {
					next = m.LocksWithdrawn()
				} else {
					next = m.LocksAcquired(at(3))
				}
			case Execute:
				require.Equal(t, specs[next.Op].RequiredLocks.NotEmpty(), held)
				require.Nil(t, specs[next.Op].FailureResult)
				next = m.Done(Outcome{Failed: rapid.IntRange(0, 9).Draw(t, "failed") == 0}, at(4))
			}
		}
		require.True(t, next.ReleaseLocks || !held, "what is held is given back at the end")
		require.Equal(t, Durable, next.Write)
		require.True(t, m.Job().Status().Final())
	})
}
