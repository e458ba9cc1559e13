package filter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"unique"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/access"
	"lockstep/core/job"
	"lockstep/core/rawjson"
)

// naive evaluates decoded JSON in the simplest way, expression by expression.
type naive struct {
	// field is a decoded value; false if there is none.
	field func(name string) (any, bool)
	// ranks orders the types, differently for opcodes and reasons.
	ranks map[string]int
	mark  job.ID
}

type nonsense struct{}

// holds is false for an invalid expression.
func (n naive) holds(tree any) (result bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(nonsense); !ok {
				panic(r)
			}
			result = false
		}
	}()
	return n.eval(tree)
}

func (n naive) eval(tree any) bool {
	if tree == nil {
		return true
	}
	list := tree.([]any)
	op := list[0].(string)
	switch op {
	case "&", "|":
		for _, operand := range list[1:] {
			if n.eval(operand) == (op == "|") {
				return op == "|"
			}
		}
		return op == "&"
	case "!":
		return !n.eval(list[1])
	}
	value, ok := n.field(list[1].(string))
	if !ok {
		panic(nonsense{})
	}
	if names, several := value.([]string); several { // one of the names is enough; != is the opposite of ==
		if op == "!=" {
			return !n.eval([]any{"==", list[1], list[2]})
		}
		for _, name := range names {
			one := n
			one.field = func(string) (any, bool) { return name, true }
			if one.eval(tree) {
				return true
			}
		}
		return false
	}
	switch op {
	case "?":
		return sense[bool](value)
	case "=~":
		return regexp.MustCompile(list[2].(string)).MatchString(sense[string](value))
	case "=[]":
		return n.contains(sense[[]any](value), list[2])
	}
	order := n.compare(value, list[2])
	switch op {
	case "=", "==":
		return order == 0
	case "!=":
		return order != 0
	case "<":
		return order < 0
	case ">":
		return order > 0
	case "<=":
		return order <= 0
	}
	return order >= 0
}

func sense[T any](value any) T {
	v, ok := value.(T)
	if !ok {
		panic(nonsense{})
	}
	return v
}

func (n naive) contains(list []any, wanted any) bool {
	found := false
	for _, element := range list {
		if kind(element) != kind(wanted) {
			panic(nonsense{})
		}
		if kind(element) == "number" && !exact(element).IsInt() {
			panic(nonsense{})
		}
		found = found || n.compare(element, wanted) == 0
	}
	return found
}

func kind(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "number"
}

func exact(value any) *big.Rat {
	number, ok := new(big.Rat).SetString(fmt.Sprint(value))
	if !ok {
		panic("no number: " + fmt.Sprint(value))
	}
	return number
}

func (n naive) compare(value, wanted any) int {
	if n.mark >= 0 && kind(wanted) == "string" {
		if wanted != "watermark" {
			panic(nonsense{})
		}
		wanted = int64(n.mark)
	}
	if order := n.ranks[kind(value)] - n.ranks[kind(wanted)]; order != 0 {
		return order
	}
	if kind(value) == "string" {
		return strings.Compare(value.(string), wanted.(string))
	}
	return exact(value).Cmp(exact(wanted))
}

// fieldsOf lists the fields of an expression.
func fieldsOf(tree any) []string {
	list, _ := tree.([]any)
	if len(list) == 0 {
		return nil
	}
	if name, ok := list[1:][0].(string); ok {
		return []string{name}
	}
	var names []string
	for _, operand := range list[1:] {
		names = append(names, fieldsOf(operand)...)
	}
	return names
}

// naiveJob is what a job has besides its opcodes.
type naiveJob struct {
	name  string
	user  map[string]any
	locks []Lock // of the next opcode
}

func naivePredicate(about string, tree any, s int64, ops []map[string]any, mark job.ID, j naiveJob) bool {
	texts := map[string]int{"number": 1}
	switch about {
	case "name":
		return naive{func(name string) (any, bool) { return j.name, name == "name" }, texts, -1}.holds(tree)
	case "user":
		return naive{func(name string) (any, bool) { v, known := j.user[name]; return v, known }, texts, -1}.holds(tree)
	case "lock":
		for _, l := range j.locks {
			mode := "shared"
			if l.Exclusive {
				mode = "exclusive"
			}
			field := func(name string) (any, bool) {
				v, known := map[string]any{"name": l.Names, "mode": []string{mode}}[name]
				return v, known
			}
			if (naive{field, texts, -1}).holds(tree) {
				return true
			}
		}
		return false
	case "jobid":
		id := func(name string) (any, bool) { return s, name == "id" }
		return naive{id, nil, mark}.holds(tree)
	case "reason":
		for _, op := range ops {
			trail, _ := op["reason"].([]any)
			for _, entry := range trail {
				field := func(name string) (any, bool) {
					at, known := map[string]int{"source": 0, "reason": 1, "timestamp": 2}[name]
					return entry.([]any)[at], known
				}
				if (naive{field, map[string]int{"number": 1}, -1}).holds(tree) {
					return true
				}
			}
		}
		return false
	}
	for _, op := range ops {
		field := func(name string) (any, bool) { return lookup(op, strings.Split(name, ".")) }
		complete := true
		for _, name := range fieldsOf(tree) {
			_, ok := field(name)
			complete = complete && ok
		}
		ranks := map[string]int{"null": 0, "bool": 1, "number": 2, "string": 3, "array": 4, "object": 5}
		if complete && (naive{field, ranks, -1}).holds(tree) {
			return true
		}
	}
	return false
}

func lookup(value any, path []string) (any, bool) {
	for _, key := range path {
		object, ok := value.(map[string]any)
		if !ok {
			return nil, false
		}
		if value, ok = object[key]; !ok {
			return nil, false
		}
	}
	return value, true
}

var (
	opFields     = []string{"OP_ID", "a", "b", "ä\"", "o.x", "o.a.b", "reason", "nix", "a.b"}
	reasonFields = []string{"source", "reason", "timestamp", "timestamp", "nix"}
	idFields     = []string{"id", "id", "id", "nix"}
	nameFields   = []string{"name", "name", "nix"}
	userFields   = []string{"name", "uid", "nix"}
	lockFields   = []string{"name", "name", "mode", "nix"}
	texts        = []string{"", "a", "ab", "ä", "OP_A", "watermark", "\\\"\n", "\U0001f407"}
)

func genTree(depth int, fields []string) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		op := rapid.SampledFrom([]string{"&", "|", "!", "?", "=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]"}).Draw(t, "op")
		if depth == 0 && (op == "&" || op == "|" || op == "!") {
			op = "!="
		}
		switch op {
		case "&", "|":
			list := []any{op}
			for range rapid.IntRange(1, 3).Draw(t, "operands") {
				list = append(list, genTree(depth-1, fields).Draw(t, "operand"))
			}
			return list
		case "!":
			return []any{op, genTree(depth-1, fields).Draw(t, "operand")}
		case "?":
			return []any{op, field}
		case "=~":
			return []any{op, field, rapid.SampledFrom([]string{"", "a", "^a", "b$", "OP_.", "ä|\\\\"}).Draw(t, "pattern")}
		}
		if rapid.Bool().Draw(t, "string") {
			return []any{op, field, rapid.SampledFrom(texts).Draw(t, "text")}
		}
		return []any{op, field, rapid.Int64Range(-1, 3).Draw(t, "number")}
	})
}

func genJSON(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		switch kind := rapid.IntRange(0, 7).Draw(t, "kind"); {
		case kind == 0:
			return nil
		case kind == 1:
			return rapid.Bool().Draw(t, "bool")
		case kind == 2:
			return json.Number(rapid.SampledFrom([]string{"0", "-1", "1.0", "2.5", "30e-1", "1e30", "-0"}).Draw(t, "number"))
		case kind == 3 || depth == 0:
			return rapid.SampledFrom(texts).Draw(t, "text")
		case kind == 4:
			return rapid.SliceOfN(genJSON(depth-1), 0, 3).Draw(t, "list")
		case kind == 5:
			return []any{rapid.SampledFrom(texts).Draw(t, "first"), rapid.SampledFrom(texts).Draw(t, "second")}
		}
		return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "x", "ä\""}), genJSON(depth-1), 0, 4).Draw(t, "object")
	})
}

func genOp() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		op := map[string]any{"OP_ID": rapid.SampledFrom(texts).Draw(t, "OP_ID")}
		for _, key := range []string{"a", "b", "ä\"", "o"} {
			if rapid.IntRange(0, 3).Draw(t, "given") > 0 {
				op[key] = genJSON(3).Draw(t, key)
			}
		}
		trail := []any{}
		for range rapid.IntRange(0, 2).Draw(t, "reasons") {
			source, text := rapid.SampledFrom(texts).Draw(t, "source"), rapid.SampledFrom(texts).Draw(t, "reason")
			trail = append(trail, []any{source, text,
				json.Number(fmt.Sprint(rapid.Int64Range(-1, 3).Draw(t, "timestamp")))})
		}
		op["reason"] = trail
		return op
	})
}

func genLock() *rapid.Generator[Lock] {
	return rapid.Custom(func(t *rapid.T) Lock {
		return Lock{rapid.SliceOfN(rapid.SampledFrom(texts), 1, 2).Draw(t, "names"), rapid.Bool().Draw(t, "exclusive")}
	})
}

// naiveUsers are users with what the predicate user sees of them.
var naiveUsers = []struct {
	user   access.Submitter
	fields map[string]any
}{
	{access.Submitter{UID: 2, Name: "ab"}, map[string]any{"name": "ab", "uid": int64(2)}},
	{access.Submitter{UID: 1}, map[string]any{"name": "", "uid": int64(1)}},
	{access.Submitter{UID: 2, Name: "ab", Remote: "a"}, map[string]any{"name": "a"}},
	{access.Submitter{UID: access.NoUID}, map[string]any{"name": ""}},
}

// spelled is the value as JSON, in one of several spellings.
func spelled(t *rapid.T, value any) json.RawMessage {
	data, err := json.Marshal(value)
	require.NoError(t, err)
	switch rapid.IntRange(0, 2).Draw(t, "spelling") {
	case 1:
		var b bytes.Buffer
		require.NoError(t, json.Indent(&b, data, " ", "\t"))
		return b.Bytes()
	case 2:
		j := job.New(1, []json.RawMessage{data}, []int{0}, job.Timestamp{Sec: 1}, "")
		j, err := job.Decode(job.Encode(j)) // ASCII, with escapes
		require.NoError(t, err)
		return j.Ops[0].Input
	}
	return data
}

func TestEvaluateAgreesWithANaiveEvaluator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var trees [][]any
		var rules []Rule
		for i := range rapid.IntRange(1, 3).Draw(t, "rules") {
			var predicates []any
			for range rapid.IntRange(0, 2).Draw(t, "predicates") {
				about := rapid.SampledFrom([]string{"jobid", "reason", "opcode", "opcode", "name", "user", "lock"}).Draw(t, "about")
				fields := map[string][]string{"jobid": idFields, "reason": reasonFields, "opcode": opFields, "name": nameFields, "user": userFields, "lock": lockFields}[about]
				predicates = append(predicates, []any{about, genTree(3, fields).Draw(t, "tree")})
			}
			data, err := json.Marshal(predicates)
			require.NoError(t, err)
			if predicates == nil {
				data = []byte("[]")
			}
			trees = append(trees, predicates)
			rules = append(rules, Rule{UUID: fmt.Sprint(i), Priority: int64(i), Watermark: 2, Predicates: data, Action: Action{Verb: Pause}})
		}
		id := rapid.Int64Range(0, 3).Draw(t, "id")
		ops := rapid.SliceOfN(genOp(), 0, 3).Draw(t, "ops")
		inputs := make([]string, len(ops))
		for i, op := range ops {
			inputs[i] = string(spelled(t, op))
		}

		user := rapid.SampledFrom(naiveUsers).Draw(t, "user")
		about := naiveJob{name: rapid.SampledFrom(texts).Draw(t, "name"), user: user.fields}
		at, inputAt := 0, ""
		if len(ops) > 0 {
			at = rapid.IntRange(0, len(ops)-1).Draw(t, "next")
			inputAt = inputs[at]
			about.locks = rapid.SliceOfN(genLock(), 0, 3).Draw(t, "locks")
		}
		judged := subject(job.ID(id), inputs...)
		judged.of = unique.Make(label{about.name, user.user})
		if len(ops) > 0 {
			judged = judged.At(at)
		}
		declare := func(input json.RawMessage) []Lock {
			require.Equal(t, strings.TrimSpace(inputAt), string(input))
			return about.locks
		}

		want := Verdict{Rule: -1}
		for i := len(rules) - 1; i >= 0; i-- {
			matches := true
			for _, predicate := range trees[i] {
				pair := predicate.([]any)
				matches = matches && naivePredicate(pair[0].(string), pair[1], id, ops, 2, about)
			}
			if matches {
				want = Verdict{i, rules[i].UUID, rules[i].Action}
			}
		}
		set := newSet(t, rules...)
		require.Equal(t, want, set.Evaluate(judged, declare))
		for e := set.Begin(judged, declare); ; {
			work := 1
			if v, done := e.Continue(&work); done {
				require.Equal(t, want, v, "in pieces")
				return
			}
		}
	})
}

// Evaluation of any job file ends and does not panic.
func FuzzSubject(f *testing.F) {
	for _, seed := range []string{
		plainOp, pinkOp, `{"OP_ID": "OP_A", "reason": [["\ud800", "", 5], []]}`, ` {"OP_ID":"\\","a":{"b":[{"c":"}\"]"}]}} `, `{"OP_ID": "a", "reason": {}}`, `{"OP_ID`, `[]`,
	} {
		f.Add([]byte(seed))
	}
	set := newSet(f,
		rule("a", 0, Action{Verb: Reject}, `[["opcode", ["&", ["==", "a.b", 1], ["=[]", "c", "x"], ["=~", "d", "e+"]]]]`),
		rule("b", 1, Action{Verb: Reject}, `[["reason", ["&", ["=~", "reason", "x+y"], ["==", "source", "y"]]]]`),
		rule("c", 2, Action{Verb: Pause}, `[["opcode", null]]`))
	f.Fuzz(func(t *testing.T, input []byte) {
		v := set.Evaluate(subject(1, string(input)), nil)
		var op map[string]any
		isOp := json.Unmarshal(input, &op) == nil && rawjson.Check(input) == nil
		_, named := op["OP_ID"].(string)
		require.Equal(t, isOp && named, v.Rule >= 0)
	})
}
