package job

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/rawjson"
)

var now = Timestamp{1795175167, 472135}

func TestNew(t *testing.T) {
	inputs := []json.RawMessage{json.RawMessage(`{"OP_ID":"OP_A"}`), json.RawMessage(`{"OP_ID":"OP_B"}`)}
	j := New(12, inputs, []int{0, -10}, now, "/livelock")
	require.Equal(t, &Job{
		ID: 12, Received: now, Livelock: "/livelock",
		Ops: []Op{{Input: inputs[0]}, {Input: inputs[1], Priority: -10}},
	}, j)
	require.Equal(t, Queued, j.Status())
	require.Panics(t, func() { New(12, inputs, nil, now, "") })
	require.Nil(t, New(12, nil, nil, now, "").Ops)
}

// Final opcodes do not change. The others get status, result and end time.
func TestEndUnfinished(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := genJob().Draw(t, "job")
		result := rawjson.Quote("detected death of job 7")
		failed, canceled := before.Clone(), before.Clone()
		for i := range canceled.Ops {
			if op := &canceled.Ops[i]; op.Status == Running { // it is too late for a cancel
				op.Status = Waiting
			}
		}
		failed.FailUnfinished(result, now)
		canceled.CancelUnstarted(nil, now)

		unfinished := false
		for i, op := range before.Ops {
			if op.Status.Final() {
				require.Equal(t, op, failed.Ops[i])
				require.Equal(t, op, canceled.Ops[i])
				continue
			}
			unfinished = true
			op.Status, op.Result, op.End = Error, result, now
			require.Equal(t, op, failed.Ops[i])
			op.Status, op.Result = Canceled, nil
			require.Equal(t, op, canceled.Ops[i])
		}
		want := now
		if !unfinished && !before.End.IsZero() {
			want = before.End
		}
		require.Equal(t, want, failed.End)
		require.Equal(t, want, canceled.End)
		require.True(t, failed.Status().Final())
		require.True(t, canceled.Status().Final())

		again := failed.Clone()
		again.FailUnfinished(rawjson.Quote("later"), Timestamp{2_000_000_000, 0})
		require.Equal(t, failed, again)
	})
}

// Ganeti's daemon wrote this file when it canceled a queued job.
func TestCancelCaptured(t *testing.T) {
	want, err := Decode(captured(t)["job-4963.canceled-while-queued.json"])
	require.NoError(t, err)
	j := want.Clone()
	j.End = Timestamp{}
	for i := range j.Ops {
		j.Ops[i].Status, j.Ops[i].End = Queued, Timestamp{}
	}
	j.CancelUnstarted(nil, want.End)
	require.Equal(t, want, j)
}

// Ganeti's daemon wrote this file for a queued job whose process had died.
func TestDeathCaptured(t *testing.T) {
	files := captured(t)
	j, err := Decode(files["job-4962.queued.json"])
	require.NoError(t, err)
	want, err := Decode(files["job-4962.error-bad-priority-death-detected.json"])
	require.NoError(t, err)
	j.FailUnfinished(rawjson.Quote("detected death of job 4962"), want.End)
	j.AppendReason(
		func(int) string { return "gnt:daemon:luxid:deathdetection" },
		func(int) string { return "detected death of job " + j.ID.String() }, want.End)
	j.Livelock, j.Ops[0].Priority = want.Livelock, want.Ops[0].Priority
	require.Equal(t, string(Encode(want)), string(Encode(j)))
}

func TestAppendReason(t *testing.T) {
	const entry = `["s", "r\u00e9\n", 1795175167472135000]`
	for _, c := range []struct{ input, want string }{
		{`{"reason":[["a","b",1]],"x":1.0e-2}`, `{"reason":[["a","b",1], ` + entry + `],"x":1.0e-2}`},
		{`{"reason":[]}`, `{"reason":[` + entry + `]}`},
		{`{"reason": [ ] }`, `{"reason": [` + entry + ` ] }`},
		{"{\"reason\":[1\n] }\n", "{\"reason\":[1, " + entry + "\n] }\n"},
		{`{"r\u0065ason":["]"]}`, `{"r\u0065ason":["]", ` + entry + `]}`},
		{`{"reason":null,"x":1}`, `{"reason":[` + entry + `],"x":1}`},
		{`{}`, `{"reason": [` + entry + `]}`},
		{` { } `, ` {"reason": [` + entry + `] } `},
		{`{"x":{"reason":[]}}`, `{"x":{"reason":[]}, "reason": [` + entry + `]}`},
		{`{"reason":[],"reason":[1]}`, `{"reason":[],"reason":[1, ` + entry + `]}`},
		// Not changed.
		{`{"reason":"x"}`, `{"reason":"x"}`},
		{`{"reason":{}}`, `{"reason":{}}`},
		{`[]`, `[]`},
		{`null`, `null`},
		{`{"reason":[]`, `{"reason":[]`},
		{`{"reason":[]} x`, `{"reason":[]} x`},
		{``, ``},
	} {
		input := json.RawMessage(c.input)
		j := &Job{Ops: []Op{{Input: input}}}
		j.AppendReason(func(int) string { return "s" }, func(int) string { return "ré\n" }, now)
		require.Equal(t, c.want, string(j.Ops[0].Input))
		require.Equal(t, c.input, string(input))
	}
}

// Source and reason are those of the opcode's index, as at submission (queue.md 3.6).
func TestAppendReasonPerOp(t *testing.T) {
	inputs := []json.RawMessage{json.RawMessage(`{"OP_ID":"OP_TEST_DELAY"}`), json.RawMessage(`{"OP_ID":"OP_TEST_JQUEUE"}`)}
	j := New(4963, inputs, []int{0, 0}, Timestamp{1795175162, 776863}, "")
	j.AppendReason(func(i int) string {
		return "gnt:opcode:" + strings.ToLower(strings.TrimPrefix(OpID(j.Ops[i].Input), "OP_"))
	}, func(i int) string {
		return "job=" + j.ID.String() + ";index=" + string(rune('0'+i))
	}, j.Received)
	require.Equal(t, `{"OP_ID":"OP_TEST_DELAY", "reason": [["gnt:opcode:test_delay", "job=4963;index=0", 1795175162776863000]]}`,
		string(j.Ops[0].Input))
	require.Equal(t, `{"OP_ID":"OP_TEST_JQUEUE", "reason": [["gnt:opcode:test_jqueue", "job=4963;index=1", 1795175162776863000]]}`,
		string(j.Ops[1].Input))
}

// In any spelling of an object, the trail grows by the entry and nothing else changes.
func TestAppendReasonAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genTree(3).Filter(func(v tree) bool { return v.kind == '{' }).Draw(t, "input")
		if trail := genTree(2).Draw(t, "trail"); trail.kind == '[' {
			v.keys = append(v.keys, []uint16{'r', 'e', 'a', 's', 'o', 'n'})
			v.values = append(v.values, trail)
		}
		input := json.RawMessage(v.sloppy(t))
		source, reason := rapid.String().Draw(t, "source"), rapid.String().Draw(t, "reason")
		j := &Job{Ops: []Op{{Input: input}}}
		j.AppendReason(func(int) string { return source }, func(int) string { return reason }, now)

		want := generic(t, input).(map[string]any)
		trail, _ := want["reason"].([]any)
		want["reason"] = append(trail, []any{source, reason, json.Number("1795175167472135000")})
		got := j.Ops[0].Input
		require.Equal(t, want, generic(t, got))
		inserted := len(got) - len(input)
		at := 0
		for at < len(input) && got[at] == input[at] {
			at++
		}
		require.Equal(t, string(input[at:]), string(got[at+inserted:]))
	})
}

func TestOpID(t *testing.T) {
	for input, want := range map[string]string{
		`{"OP_ID":"OP_TEST_DELAY"}`:             "OP_TEST_DELAY",
		`{"a":{"OP_ID":"x"}, "OP_ID" : "OP_A"}`: "OP_A",
		`{"OP_\u0049D":"\u004fP_A"}`:            "OP_A",
		`{"OP_ID":"OP_A","OP_ID":"OP_B"}`:       "OP_B",
		`{"OP_ID":7}`:                           "",
		`{"OP_ID":null}`:                        "",
		`{}`:                                    "",
		`["OP_ID"]`:                             "",
		`{"OP_ID":"OP_A"`:                       "",
		``:                                      "",
	} {
		require.Equal(t, want, OpID(json.RawMessage(input)), input)
	}
}

func TestErrorResult(t *testing.T) {
	for want, got := range map[string]json.RawMessage{
		`["JobQueueFull", []]`:                                  ErrorResult("JobQueueFull"),
		`["OpExecError", ["Preceding opcode failed"]]`:          ErrorResult("OpExecError", "Preceding opcode failed"),
		`["OpPrereqError", ["<\u00e4>", "wrong_input"]]`:        ErrorResult("OpPrereqError", "<ä>", "wrong_input"),
		`["ResolverError", ["host", -2, null]]`:                 ErrorResult("ResolverError", "host", -2, nil),
		`["HooksAbort", [[["node", "<script>", "out\u0000"]]]]`: ErrorResult("HooksAbort", [][]any{{"node", "<script>", "out\x00"}}),
		`["X", [{"a": 1, "b": [2, 3]}, 1.0e-2]]`: ErrorResult("X", map[string]any{"b": []int{2, 3}, "a": 1},
			json.RawMessage(`1.0e-2`)),
	} {
		require.Equal(t, want, string(got))
	}
	require.Panics(t, func() { ErrorResult("X", math.NaN()) })
}
