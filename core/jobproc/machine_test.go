package jobproc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
	"lockstep/core/rawjson"
	"lockstep/core/retry"
)

func at(sec int64) job.Timestamp { return job.Timestamp{Sec: sec, Usec: 5} }

func newJob(ops int) *job.Job {
	inputs := make([]json.RawMessage, ops)
	for i := range inputs {
		inputs[i] = json.RawMessage(`{"OP_ID": "OP_TEST_DELAY", "duration": 1}`)
	}
	return job.New(7, inputs, make([]int, ops), at(1), "")
}

func machine(t require.TestingT, ops int) *Machine {
	m, err := New(newJob(ops), nil)
	require.NoError(t, err)
	return m
}

func TestTheLifeOfTwoOpcodes(t *testing.T) {
	m := machine(t, 2)

	require.Equal(t, Step{Write: Visible, Action: Begin, Op: 0}, m.Start(at(10)))
	require.Equal(t, job.Waiting, m.Job().Status())
	require.Equal(t, Step{Write: Visible, Action: Execute, Op: 0}, m.Permitted(at(11)))
	require.Equal(t, job.Running, m.Job().Status())

	require.Equal(t, Step{Write: Recorded, Action: Begin, Op: 1}, m.Done(Outcome{Result: json.RawMessage("true")}, at(12)))
	require.Equal(t, job.Waiting, m.Job().Status(), "between two opcodes a job never shows queued")
	require.Equal(t, job.Success, m.Job().Ops[0].Status)

	m.Permitted(at(13))
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 1}, m.Done(Outcome{}, at(14)))
	require.Equal(t, job.Success, m.Job().Status())
	require.Equal(t, at(10), m.Job().Start)
	require.Equal(t, at(14), m.Job().End)
	require.Equal(t, at(13), m.Job().Ops[1].Exec)
}

// The success of an opcode that is tried again when its process dies survives a power loss before the next opcode begins: that one would be
// begun once more with it.
func TestASuccessThatAPowerLossWouldHaveTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		try    int
		write  Write
	}{
		"lost":                {retry.Policy{Times: 2, On: []retry.Cause{retry.Lost}}, 2, Durable},
		"lost, the last try":  {retry.Policy{Times: 2, On: []retry.Cause{retry.Lost}}, 3, Recorded},
		"lost does not count": {retry.Policy{Times: 2}, 1, Recorded},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := New(newJob(2), []LaunchSpec{{Retry: &c.policy, Try: c.try}})
			require.NoError(t, err)
			m.Start(at(1))
			m.Permitted(at(2))
			require.Equal(t, Step{Write: c.write, Action: Begin, Op: 1}, m.Done(Outcome{}, at(3)))
		})
	}
}

func TestAFailureEndsTheJobAndNamesWhy(t *testing.T) {
	m := machine(t, 3)
	m.Start(at(1))
	m.Permitted(at(2))
	m.Done(Outcome{}, at(3))
	m.Permitted(at(4))
	failure := job.ErrorResult("OpExecError", "boom")
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 1}, m.Done(Outcome{Failed: true, Result: failure}, at(5)))

	ops := m.Job().Ops
	require.Equal(t, []job.Status{job.Success, job.Error, job.Error}, []job.Status{ops[0].Status, ops[1].Status, ops[2].Status})
	require.Equal(t, string(failure), string(ops[1].Result))
	require.JSONEq(t, `["OpExecError", ["Preceding opcode failed"]]`, string(ops[2].Result))
	require.Equal(t, at(5), m.Job().End)
}

func TestACancelEndsAJobBetweenItsOpcodesOnly(t *testing.T) {
	m := machine(t, 3)
	m.Start(at(1))
	m.Permitted(at(2))
	require.Equal(t, Step{Write: Recorded}, m.Cancel(at(3)), "in the middle of an opcode it is too late; the daemon hears that")
	require.Equal(t, job.Running, m.Job().Status())
	m.Done(Outcome{}, at(4))
	require.Equal(t, Step{Write: Durable, Action: Exit, Op: 1}, m.Cancel(at(5)))
	ops := m.Job().Ops
	require.Equal(t, []job.Status{job.Success, job.Canceled, job.Canceled}, []job.Status{ops[0].Status, ops[1].Status, ops[2].Status})
	require.JSONEq(t, `"Job canceled by request"`, string(ops[2].Result))
	require.Equal(t, at(5), m.Job().End)
}

func TestAPriorityIsForWhatHasNotBegun(t *testing.T) {
	m := machine(t, 2)
	m.Start(at(1))
	m.Permitted(at(2))
	require.Equal(t, Step{Write: Recorded}, m.Reprioritise(-7))
	require.Equal(t, []int{0, -7}, []int{m.Job().Ops[0].Priority, m.Job().Ops[1].Priority})
}

func TestAJobThatHasBegunIsNotRunAgain(t *testing.T) {
	j := newJob(2)
	j.Ops[0].Status = job.Running
	_, err := New(j, nil)
	require.ErrorContains(t, err, "has begun before")

	_, err = New(job.New(7, nil, nil, at(1), ""), nil)
	require.ErrorContains(t, err, "no opcodes")
}

func TestEventsOutOfPlacePanic(t *testing.T) {
	for name, event := range map[string]func(*Machine){
		"done before it began": func(m *Machine) { m.Start(at(1)); m.Done(Outcome{}, at(2)) },
		"log before it began":  func(m *Machine) { m.Log("message", rawjson.Quote("x"), at(1)) },
		"started twice":        func(m *Machine) { m.Start(at(1)); m.Start(at(2)) },
		"began after the end": func(m *Machine) {
			m.Start(at(1))
			m.Permitted(at(1))
			m.Done(Outcome{}, at(1))
			m.Permitted(at(2))
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Panics(t, func() { event(machine(t, 1)) })
		})
	}
}

// In any run statuses only move forward, serials rise, and exactly one write is durable, the last.
func TestEveryRunEndsOnceAndMovesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ops := rapid.IntRange(1, 4).Draw(t, "ops")
		m := machine(t, ops)
		next, durable := m.Start(at(1)), 0
		var seen []job.Status
		for {
			status := m.Job().Status()
			require.True(t, len(seen) == 0 || status >= seen[len(seen)-1] || status == job.Waiting)
			require.NotEqual(t, job.Queued, status)
			seen = append(seen, status)
			if next.Write == Durable {
				durable++
			}
			if next.Action == Exit {
				break
			}
			switch next.Action {
			case Begin:
				next = m.Permitted(at(2))
			case Execute, Wait:
				if rapid.Bool().Draw(t, "log") {
					next = m.Log("message", rawjson.Quote("x"), at(3))
				} else {
					next = m.Done(Outcome{Failed: rapid.Bool().Draw(t, "failed")}, at(4))
				}
			}
		}
		require.Equal(t, 1, durable)
		require.True(t, m.Job().Status().Final())
		for i, entry := range m.Job().LogAfter(0) {
			require.EqualValues(t, i+1, entry.Serial)
		}
	})
}

func TestALogKeepsItsBeginningAndItsEnd(t *testing.T) {
	m := machine(t, 1)
	m.Start(at(1))
	m.Permitted(at(1))
	const lines = 60_000
	text := strings.Repeat("x", 100)
	for i := range lines {
		m.Log(job.LogStdout, rawjson.Quote(fmt.Sprintf("%d %s", i, text)), at(2))
	}
	log := m.Job().Ops[0].Log
	size := 0
	notes := 0
	for i, entry := range log {
		size += len(entry.Payload) + logEntryBytes
		if i > 0 {
			require.Greater(t, entry.Serial, log[i-1].Serial)
		}
		if entry.Type == job.LogMissing {
			notes++
		}
	}
	require.Less(t, size, 2*LogLimit)
	require.Equal(t, 1, notes)
	require.Contains(t, string(log[0].Payload), "0 x")
	require.Contains(t, string(log[len(log)-1].Payload), fmt.Sprint(lines-1))
	require.EqualValues(t, lines, m.Job().LastSerial())
	var note job.MissingOutput
	require.NoError(t, json.Unmarshal(log[findMissing(log)].Payload, &note))
	require.EqualValues(t, lines-len(log)+1, note.Missing.Stdout.Lines)
	require.EqualValues(t, findMissing(log)+lines-len(log)+1, note.Written.Stdout.Lines)
}

func findMissing(log []job.LogEntry) int {
	return slices.IndexFunc(log, func(e job.LogEntry) bool { return e.Type == job.LogMissing })
}

// Readers read the log at any time. Each note about dropped entries tells each reader exactly what this reader misses, so
// that the entries it has and the output it misses are the whole output.
func TestEachReaderIsToldExactlyWhatIsMissing(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		m := machine(t, 2)
		m.Start(at(1))
		var all []job.Output // all[serial-1] is what that entry held
		readers := make([]reader, 3)
		for range 2 {
			m.Permitted(at(1))
			size := []int{10, 45_000}[random.IntN(2)] // the last exceeds the bounds
			for range 90 {
				typ, payload := "message", rawjson.Quote("x")
				if i := random.IntN(7); i > 0 {
					piece := append(bytes.Repeat([]byte("x"), size), []string{"", "\n", "\r\n"}[i%3]...)
					typ, payload = job.EncodeOutput([]string{job.LogStdout, job.LogStderr}[i%2], piece)
				}
				m.Log(typ, payload, at(2))
				all = append(all, job.OutputOf(typ, payload))
				if i := random.IntN(30); i < len(readers) {
					readers[i].read(t, m.Job(), all)
				}
			}
			m.Done(Outcome{}, at(3))
		}
		for i := range readers {
			readers[i].read(t, m.Job(), all)
			require.Equal(t, sum(all), readers[i].account.Delivered.Plus(readers[i].account.Missing))
		}
	}
}

type reader struct {
	serial  int64
	account job.OutputAccount
}

func (r *reader) read(t *testing.T, j *job.Job, all []job.Output) {
	for _, entry := range j.LogAfter(r.serial) {
		want := sum(all[r.serial : entry.Serial-1])
		if entry.Type == job.LogMissing {
			want = sum(all[r.serial:entry.Serial])
		}
		require.Equal(t, want, r.account.Add(entry.Type, entry.Payload))
		r.serial = entry.Serial
	}
}

func sum(amounts []job.Output) job.Output {
	var total job.Output
	for _, amount := range amounts {
		total = total.Plus(amount)
	}
	return total
}

func TestManyOpcodesShareTheLogOfFour(t *testing.T) {
	const ops = 64
	m := machine(t, ops)
	m.Start(at(1))
	line := rawjson.Quote(strings.Repeat("x", 1000))
	for range ops {
		m.Permitted(at(1))
		for range 3000 {
			m.Log("message", line, at(2))
		}
		m.Done(Outcome{}, at(3))
	}
	require.Less(t, len(job.Encode(m.Job())), logShareOps*2*LogLimit+ops*1000)
	for i := range m.Job().Ops {
		require.Greater(t, len(m.Job().Ops[i].Log), 30)
	}
}
