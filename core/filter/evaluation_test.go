package filter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/access"
	"lockstep/core/job"
)

// An evaluation that is interrupted after each test has the verdict of one that is not.
func TestAnInterruptedEvaluationHasTheSameVerdict(t *testing.T) {
	predicates := rapid.SampledFrom([]string{
		`["opcode", ["=", "OP_ID", "OP_A"]]`, `["opcode", ["=~", "text", "^(a|aa)+b$"]]`, `["opcode", ["&", ["=~", "text", "(a|b){300}c"], ["!", ["=~", "text", "x.*y"]]]]`,
		`["reason", ["=~", "reason", "b(a|b)*c$"]]`, `["reason", ["|", ["=", "source", "s"], ["=~", "reason", "(a|b){99}c"]]]`, `["jobid", [">", "id", 3]]`, `["opcode", ["=", "missing", 1]]`,
		`["opcode", ["=[]", "list", "b"]]`, `["opcode", null]`, `["reason", ["~", "reason", 1]]`,
	})
	texts := rapid.SampledFrom([]string{"", "aab", "ax", strings.Repeat("ab", 900) + "c", "xy", strings.Repeat("a", 2000) + "b", `a\nb`})
	rapid.Check(t, func(t *rapid.T) {
		var rules []Rule
		for i := range rapid.IntRange(0, 5).Draw(t, "rules") {
			list := rapid.SliceOfN(predicates, 0, 3).Draw(t, "predicates")
			rules = append(rules, Rule{UUID: fmt.Sprint(i), Predicates: json.RawMessage("[" + strings.Join(list, ",") + "]"), Action: Action{Verb: Pause}})
		}
		set, _ := NewSet(rules) //nolint:errcheck // an invalid rule never applies
		var ops []json.RawMessage
		for range rapid.IntRange(1, 4).Draw(t, "ops") {
			ops = append(ops, fmt.Appendf(nil, `{"OP_ID": %q, "text": "%s", "list": ["a", %q], "reason": [["s", "%s", 1], ["t", "%s", 2]]}`,
				rapid.SampledFrom([]string{"OP_A", "OP_B"}).Draw(t, "id"), texts.Draw(t, "text"), texts.Draw(t, "element"), texts.Draw(t, "reason"), texts.Draw(t, "reason")))
		}
		subject := NewSubject(job.New(job.ID(rapid.IntRange(1, 5).Draw(t, "job")), ops, make([]int, len(ops)), job.Timestamp{}, ""), "", access.Submitter{})
		e := set.Begin(subject, nil)
		for pieces := 0; ; pieces++ {
			require.Less(t, pieces, 10_000)
			work := 1
			if v, done := e.Continue(&work); done {
				require.Equal(t, set.Evaluate(subject, nil), v)
				return
			}
		}
	})
}

// The most expensive rule on a large job is judged in pieces of about the same work.
func TestALargeJobIsJudgedInPieces(t *testing.T) {
	pattern := `["opcode", ["!", ["=~", "text", "(a|aa){140}b"]]]`
	predicates := `[` + strings.Repeat(pattern+",", 99) + pattern + `]`
	set, err := NewSet([]Rule{{UUID: testUUID, Predicates: json.RawMessage(predicates), Action: Action{Verb: Pause}}})
	require.NoError(t, err)
	var ops []json.RawMessage
	for range 20 {
		ops = append(ops, fmt.Appendf(nil, `{"OP_ID": "OP_A", "text": %q}`, strings.Repeat("a", 100)))
	}
	subject := NewSubject(job.New(1, ops, make([]int, len(ops)), job.Timestamp{}, ""), "", access.Submitter{})
	e := set.Begin(subject, nil)
	pieces := 0
	for done := false; !done; pieces++ {
		const slice = 250_000
		work := slice
		_, done = e.Continue(&work)
		require.Greater(t, work, -slice)
	}
	require.Greater(t, pieces, 20)
}
