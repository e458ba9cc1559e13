package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/core/access"
	"lockstep/core/job"
)

func subject(id job.ID, inputs ...string) *Subject {
	raw := make([]json.RawMessage, len(inputs))
	for i, input := range inputs {
		raw[i] = json.RawMessage(input)
	}
	return NewSubject(job.New(id, raw, make([]int, len(raw)), job.Timestamp{Sec: 1}, ""), "", access.Submitter{})
}

func rule(uuid string, priority int64, action Action, predicates string) Rule {
	return Rule{UUID: uuid, Watermark: 100, Priority: priority, Predicates: json.RawMessage(predicates), Action: action}
}

func newSet(t require.TestingT, rules ...Rule) *Set {
	set, err := NewSet(rules)
	require.NoError(t, err)
	return set
}

const (
	plainOp  = `{"instance_name": "web1", "reason": [["gnt:client:gnt-instance", "startup", 5]], "OP_ID": "OP_INSTANCE_STARTUP"}`
	pinkOp   = `{"reason": [["gnt:user", "for maintenance pink bunny, night 2", 5]], "OP_ID": "OP_INSTANCE_STARTUP"}`
	createOp = `{"OP_ID": "OP_INSTANCE_CREATE", "reason": []}`
	disksOp  = `{"OP_ID": "OP_INSTANCE_REPLACE_DISKS", "reason": []}`
)

// The examples of designs.md "Job filters".
func TestTheExamplesOfTheDesign(t *testing.T) {
	accept := Verdict{Rule: -1}

	for _, verb := range []Verb{Reject, Pause} { // drain, and its soft form
		drain := newSet(t, rule("d", 0, Action{Verb: verb}, `[["jobid", [">", "id", "watermark"]]]`))
		require.Equal(t, accept, drain.Evaluate(subject(100, plainOp), nil))
		require.Equal(t, Verdict{0, "d", Action{Verb: verb}}, drain.Evaluate(subject(101, plainOp), nil))
		require.Equal(t, Verdict{0, "d", Action{Verb: verb}}, drain.Evaluate(subject(101), nil), "a job without opcodes")
	}

	maintenance := newSet(t,
		rule("p", 1, Action{Verb: Pause}, `[["jobid", [">", "id", "watermark"]]]`),
		rule("a", 0, Action{}, `[["reason", ["=~", "reason", "maintenance pink bunny"]]]`))
	require.Equal(t, Verdict{0, "a", Action{Verb: Accept}}, maintenance.Evaluate(subject(101, plainOp, pinkOp), nil))
	require.Equal(t, Verdict{1, "p", Action{Verb: Pause}}, maintenance.Evaluate(subject(101, plainOp), nil))
	require.Equal(t, accept, maintenance.Evaluate(subject(99, plainOp), nil))

	create := newSet(t, rule("c", 1, Action{Verb: Reject}, `[["opcode", ["=", "OP_ID", "OP_INSTANCE_CREATE"]]]`))
	require.Equal(t, Verdict{0, "c", Action{Verb: Reject}}, create.Evaluate(subject(5, plainOp, createOp), nil))
	require.Equal(t, accept, create.Evaluate(subject(500, plainOp, disksOp), nil))

	disks := newSet(t, rule("r", 99, Action{RateLimit, 10}, `[["opcode", ["=", "OP_ID", "OP_INSTANCE_REPLACE_DISKS"]]]`))
	require.Equal(t, Verdict{0, "r", Action{RateLimit, 10}}, disks.Evaluate(subject(5, disksOp), nil))
	require.Equal(t, accept, disks.Evaluate(subject(5, createOp), nil))
}

func TestTheFirstRuleThatMatchesApplies(t *testing.T) {
	set := newSet(t,
		rule("all", 3, Action{Verb: Reject}, `[]`),
		rule("two", 2, Action{Verb: Pause}, `[["jobid", ["<", "id", 10]], ["opcode", ["==", "instance_name", "web1"]]]`),
		rule("off", 1, Action{Verb: Continue}, `[]`))
	require.Equal(t, Verdict{1, "two", Action{Verb: Pause}}, set.Evaluate(subject(5, plainOp), nil))
	require.Equal(t, Verdict{2, "all", Action{Verb: Reject}}, set.Evaluate(subject(10, plainOp), nil))
	require.Equal(t, Verdict{2, "all", Action{Verb: Reject}}, set.Evaluate(subject(5, createOp), nil))
	require.Equal(t, Verdict{Rule: -1}, newSet(t).Evaluate(subject(5, plainOp), nil))
	require.Equal(t, Verdict{Rule: -1}, newSet(t, rule("off", 1, Action{Verb: Continue}, `[]`)).Evaluate(subject(5, plainOp), nil))
}

// holds reports whether a rule with the predicate applies.
func holds(t require.TestingT, predicate string, s *Subject) bool {
	return newSet(t, rule("u", 0, Action{Verb: Pause}, `[`+predicate+`]`)).Evaluate(s, nil).Rule == 0
}

func TestJobIDPredicates(t *testing.T) {
	for expr, want := range map[string]bool{
		`null`:                                         true,
		`["|"]`:                                        false,
		`["==", "id", 101]`:                            true,
		`["!=", "id", "watermark"]`:                    true,
		`["<=", "id", "watermark"]`:                    false,
		`["!", ["==", "id", "Watermark"]]`:             false, // another string: the expression is false, not only the comparison
		`["!=", "id", "101"]`:                          false,
		`["!", ["==", "job", 5]]`:                      false, // another field
		`["|", ["==", "id", 101], ["==", "job", 5]]`:   true,  // never reached
		`["|", ["==", "job", 5], ["==", "id", 101]]`:   false,
		`["!", ["=~", "id", "x"]]`:                     false,
		`["!", ["?", "id"]]`:                           false,
		`["!", ["=[]", "id", 5]]`:                      false,
		`["&", [">", "id", 100], ["<", "id", 102]]`:    true,
		`["&", ["<", "id", 100], ["=~", "id", "1"]]`:   false,
		`["!", ["&", ["<", "id", 100], ["?", "nix"]]]`: true,
	} {
		require.Equal(t, want, holds(t, `["jobid", `+expr+`]`, subject(101, plainOp)), expr)
	}
}

func TestReasonPredicates(t *testing.T) {
	s := subject(7,
		`{"OP_ID": "OP_A"}`,
		`{"OP_ID": "OP_B", "reason": [["gnt:user", "caf\u00e9 \"au lait\"", 10], ["gnt:client:gnt-debug", "delay", 20], ["bad", 1, 2], "bad", ["", "", 1.5], ["a", "b", 1, 2]]}`,
		`{"OP_ID": "OP_C", "reason": [["gnt:opcode:c", "job=7;index=2", 30]]}`)
	for expr, want := range map[string]bool{
		`null`:                                     true,
		`["|"]`:                                    false,
		`["==", "source", "gnt:user"]`:             true,
		`["==", "reason", "café \"au lait\""]`:     true,
		`["=~", "reason", "au.*lait"]`:             true,
		`["=~", "reason", "AU"]`:                   false,
		`["=~", "reason", "^job=7;index=[0-9]+$"]`: true,
		`["==", "timestamp", 20]`:                  true,
		`[">", "timestamp", 30]`:                   false,
		`["&", ["==", "source", "gnt:user"], ["==", "timestamp", 20]]`: false, // no single entry satisfies both
		`["&", ["==", "source", "gnt:user"], ["==", "timestamp", 10]]`: true,
		`["!", ["==", "source", "gnt:user"]]`:                          true,  // of another entry
		`["==", "source", "bad"]`:                                      false, // not an entry
		`["==", "source", "a"]`:                                        false,
		`["<", "source", 5]`:                                           true, // strings are less than numbers here
		`[">=", "source", 5]`:                                          false,
		`[">", "timestamp", "zzz"]`:                                    true,
		`["==", "timestamp", "10"]`:                                    false,
		`["!", ["=~", "timestamp", "1"]]`:                              false,
		`["!", ["?", "reason"]]`:                                       false,
		`["!", ["=[]", "reason", "x"]]`:                                false,
		`["!", ["==", "nix", "x"]]`:                                    false,
		`["==", "reason", "watermark"]`:                                false,
	} {
		require.Equal(t, want, holds(t, `["reason", `+expr+`]`, s), expr)
	}
	require.False(t, holds(t, `["reason", null]`, subject(7, createOp)), "no entry at all")
}

func TestOpcodePredicates(t *testing.T) {
	s := subject(7, ` {"n": null, "b": true, "i": 5, "f": 2.5, "big": 1e400, "s": "caf\u00e9", "l": ["a", "b"], "li": [1, 2.0, 30e-1],
		"mixed": [1, "a"], "half": [1.5], "e": [], "o": {"x": {"y": "z", "y": "deep"}, "k.l": 1}, "dup": 1, "dup": 2, "k\u0065y": "esc",
		"": 0, "priority": -10, "debug_level": 0, "dry_run": null, "comment": "night", "depends": [[5, []]],
		"reason": [["gnt:user", "x", 5]], "OP\u005fID": "OP_A" } `)
	for expr, want := range map[string]bool{
		`null`:                                    true,
		`["|"]`:                                   false,
		`["==", "OP_ID", "OP_A"]`:                 true,
		`["=~", "OP_ID", "^OP_[A-F]$"]`:           true,
		`["==", "OP_ID.x", "OP_A"]`:               false,
		`["==", "i", 5]`:                          true,
		`["<", "f", 3]`:                           true,
		`["==", "f", 2]`:                          false,
		`[">", "big", 9223372036854775807]`:       true,
		`["==", "s", "café"]`:                     true,
		`["=~", "s", "fé$"]`:                      true,
		`["=~", "s", "f\\x{e9}"]`:                 true,
		`["==", "o.x.y", "deep"]`:                 true,
		`["!=", "o.x.nix", "deep"]`:               false,
		`["==", "o.k.l", 1]`:                      false, // a dot always leads into an object
		`["==", "dup", 2]`:                        true,
		`["==", "key", "esc"]`:                    true,
		`["==", "", 0]`:                           true,
		`["!=", "i.x", 5]`:                        false, // no object
		`["!=", "nix", 5]`:                        false,
		`["|", ["==", "i", 5], ["==", "nix", 5]]`: false, // missing, though never reached
		`["?", "b"]`:                              true,
		`["!", ["?", "i"]]`:                       false,
		`["!", ["=~", "i", "5"]]`:                 false,
		`["|", ["?", "b"], ["?", "i"]]`:           true, // the wrong type is never reached
		`["=[]", "l", "b"]`:                       true,
		`["=[]", "l", "c"]`:                       false,
		`["=[]", "li", 3]`:                        true,
		`["!", ["=[]", "e", "c"]]`:                true,
		`["!", ["=[]", "e", 5]]`:                  true,
		`["!", ["=[]", "l", 5]]`:                  false,
		`["!", ["=[]", "mixed", 5]]`:              false,
		`["!", ["=[]", "half", 5]]`:               false,
		`["!", ["=[]", "s", "c"]]`:                false,
		`["&", ["<", "n", 0], ["<", "n", ""]]`:    true, // null < number < string
		`["&", ["<", "b", -9], ["<", "b", ""]]`:   true,
		`["&", ["<", "i", ""], [">", "s", 9]]`:    true,
		`["&", [">", "l", 0], [">", "l", "zz"], [">", "o", "zz"]]`: true,
		`["==", "l", "a"]`:           false,
		`["!=", "n", "a"]`:           true,
		`["==", "priority", -10]`:    true,
		`["==", "comment", "night"]`: true,
		`["==", "debug_level", 0]`:   true,
		`["!=", "dry_run", "x"]`:     true,
		`["!=", "depends", "x"]`:     true,
		`[">", "reason", "x"]`:       true,
		`["==", "s", "watermark"]`:   false,
	} {
		require.Equal(t, want, holds(t, `["opcode", `+expr+`]`, s), expr)
	}
}

// A single opcode must satisfy the complete expression.
func TestAnyOneOpcodeIsEnough(t *testing.T) {
	s := subject(7, `{"OP_ID": "OP_A", "x": 1}`, `{"OP_ID": "OP_B", "x": 2}`)
	require.True(t, holds(t, `["opcode", ["==", "x", 2]]`, s))
	require.False(t, holds(t, `["opcode", ["&", ["==", "x", 2], ["==", "OP_ID", "OP_A"]]]`, s))
	require.True(t, holds(t, `["opcode", ["==", "x", 2]], ["opcode", ["==", "x", 1]]`, s))
	require.False(t, holds(t, `["opcode", null]`, subject(7)))
}

func TestOpcodesThatAreNoneAreNotSeen(t *testing.T) {
	for _, input := range []string{`5`, `null`, `"OP_ID"`, `["OP_ID"]`, `{}`, `{"OP_ID": 5, "reason": [["a", "b", 1]]}`, `{"reason": [["a", "b", 1]]}`, `{"OP_ID": "OP_A"`, ``} {
		require.False(t, holds(t, `["opcode", null]`, subject(7, input)), input)
		require.False(t, holds(t, `["reason", null]`, subject(7, input)), input)
		require.True(t, holds(t, `["opcode", null]`, subject(7, input, createOp)), input)
	}
}

func TestRulesAskForManyKeys(t *testing.T) {
	var parts, members []string
	for i := range 72 {
		parts = append(parts, fmt.Sprintf(`["==", "k%d", %d]`, i, i))
		members = append(members, fmt.Sprintf(`"k%d": %d`, i, i))
	}
	set := newSet(t, rule("u", 0, Action{Verb: Pause}, `[["opcode", ["&", `+strings.Join(parts, ",")+`]]]`))
	op := `{"OP_ID": "OP_A", ` + strings.Join(members, ", ") + `}`
	require.Equal(t, 0, set.Evaluate(subject(1, op), nil).Rule)
	require.Equal(t, 0, set.Evaluate(subject(1, createOp, strings.Replace(op, `: 70`, `: 71`, 1), op), nil).Rule)
	require.Equal(t, -1, set.Evaluate(subject(1, createOp, strings.Replace(op, `: 70`, `: 71`, 1)), nil).Rule)
}

// Invalid rules of other programs are kept, and do not stop the other rules.
func TestRulesThatAreNotUnderstoodNeverApply(t *testing.T) {
	set, err := NewSet([]Rule{
		rule("a", 0, Action{Verb: Reject}, `[["opcode", ["=~", "x", "(?=look)"]]]`),
		rule("b", 1, Action{Verb: Reject}, `[["users", null]]`),
		rule("c", 2, Action{Verb: Continue}, `[5]`),
		rule("d", 3, Action{Verb: Pause}, `[["jobid", ["==", "id", 7]]]`),
		rule("e", 4, Action{Verb: Reject}, `[["jobid", ["!=", "nix", 7]]]`), // valid, and always false
	})
	require.ErrorContains(t, err, `filter rule a: predicates[0][1][2]: the pattern "(?=look)" is not in RE2 syntax`)
	require.ErrorContains(t, err, "\nfilter rule b: predicates[0][0]: want one of")
	require.ErrorContains(t, err, "\nfilter rule c: predicates[0]: want a list")
	require.NotContains(t, err.Error(), "rule e")
	var wrong *RuleError
	var invalid *Invalid
	require.ErrorAs(t, err, &wrong)
	require.True(t, errors.As(wrong, &invalid))
	require.Equal(t, "a", wrong.UUID)

	require.Len(t, set.Rules(), 5)
	require.Equal(t, Verdict{3, "d", Action{Verb: Pause}}, set.Evaluate(subject(7, createOp), nil))
	require.Equal(t, Verdict{Rule: -1}, set.Evaluate(subject(8, createOp), nil))
}

// Files that a real Ganeti wrote.
func TestJobsOfARealQueue(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join("..", "job", "testdata", "job-*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	set := newSet(t,
		rule("a", 0, Action{Verb: Pause}, `[["reason", ["=~", "source", "^gnt:opcode:[a-z_]+$"]], ["opcode", ["=~", "OP_ID", "^OP_"]], ["opcode", ["==", "priority", 0]]]`),
		rule("b", 1, Action{Verb: Reject}, `[]`))
	paused := 0
	for _, path := range paths {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		j, err := job.Decode(data)
		require.NoError(t, err)
		if v := set.Evaluate(NewSubject(j, "", access.Submitter{}), nil); v.Rule == 0 {
			paused++
		}
	}
	require.Greater(t, paused, len(paths)/2)
}

// The patterns of all rules together are bounded, because they are compiled at every start.
func TestPatternsOfAllRulesTogetherAreBounded(t *testing.T) {
	var rules []Rule
	for i := range 12 {
		predicates := `[["opcode", ["=~", "x", "` + strings.Repeat("a{1000}", 90) + fmt.Sprint(i) + `"]]]`
		rules = append(rules, rule(fmt.Sprintf("r%02d", i), int64(i), Action{Verb: Pause}, predicates))
	}
	set, err := NewSet(rules)
	require.Len(t, set.Rules(), 12)
	require.Len(t, set.active, 11)
	var wrong *RuleError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "r11", wrong.UUID)
	require.ErrorContains(t, err, "the patterns of all rules together")

	require.ErrorContains(t, set.CheckBudget(&rules[11]), "predicates: the patterns of all rules together have more than 1000000 instructions")
	rules[11].UUID = "r03" // replaces a rule
	require.NoError(t, set.CheckBudget(&rules[11]))
	small := rule("small", 0, Action{Verb: Pause}, `[["opcode", ["=~", "x", "^a+$"]]]`)
	require.NoError(t, set.CheckBudget(&small))
}
