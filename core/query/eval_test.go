package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/job"
)

// item is a ValueSource from a table.
type item map[string]Value

func (i item) Field(name string) Value {
	if v, ok := i[name]; ok {
		return v
	}
	return Value{Status: Unknown}
}

func TestMatch(t *testing.T) {
	one := item{
		"id":       {Data: job.ID(5)},
		"priority": {Data: int32(-10)},
		"status":   {Data: "running"},
		"archived": {Data: false},
		"flag":     {Data: true},
		"ratio":    {Data: 2.5},
		"exact":    {Data: json.Number("9007199254740993.5")},
		"opstatus": {Data: []any{"success", "running"}},
		"summary":  {Data: []string{"TEST_DELAY(1.0)"}},
		"opprio":   {Data: []any{0, -10}},
		"raw":      {Data: json.RawMessage(`[1, 2.0, 30e-1]`)},
		"mixed":    {Data: []any{1, "a"}},
		"half":     {Data: json.RawMessage(`[1, 1.5]`)},
		"empty":    {Data: []any{}},
		"null":     {Data: nil},
		"ints":     {Data: []int{1, 2}},
		"floats":   {Data: []any{1.0, 2e0}},
		"absent":   {Data: json.RawMessage(nil)},
		"broken":   {Data: json.RawMessage(`{`)},
		"no time":  {Mode: CompareSeconds, Data: []any{}},
		"start_ts": {Mode: CompareSeconds, Data: [2]int64{100, 999_999}},
		"mtime":    {Mode: CompareSeconds, Data: 100.75},
		"stamp":    {Mode: CompareSeconds, Data: job.Timestamp{Sec: 100, Usec: 1}},
		"pair":     {Mode: CompareSeconds, Data: json.RawMessage(`[100, 5]`)},
		"end_ts":   {Status: Unavailable, Mode: CompareSeconds},
		"node":     {Mode: CompareHostName, Data: "node1.example.com"},
	}
	for text, want := range map[string]string{
		`null`:  `true`,
		`["|"]`: `false`,
		`["&", ["==", "id", 5], ["!=", "id", 6], ["<", "id", 6], [">=", "id", 5], ["<=", "id", 5]]`: `true`,
		`["==", "id", "5"]`:                        `: the field "id" cannot be compared with "5"`,
		`["<", "status", 5]`:                       `: the field "status" cannot be compared with 5`,
		`["<", "status", "rvnning"]`:               `true`,
		`["==", "priority", -10]`:                  `true`,
		`[">", "ratio", 2]`:                        `true`,
		`["<", "ratio", 3]`:                        `true`,
		`[">", "exact", 9007199254740993]`:         `true`,
		`["?", "flag"]`:                            `true`,
		`["!", ["?", "archived"]]`:                 `true`,
		`["?", "id"]`:                              `: the field "id" is not boolean`,
		`["==", "flag", 1]`:                        `: the field "flag" cannot be compared with 1`,
		`["==", "opstatus", "success"]`:            `: the field "opstatus" cannot be compared with "success"`,
		`["==", "null", "x"]`:                      `: the field "null" cannot be compared with "x"`,
		`["=~", "status", "un+"]`:                  `true`,
		`["=~", "status", "^un"]`:                  `false`,
		`["=~", "id", "5"]`:                        `: the field "id" is not a string, so that no pattern can match`,
		`["=[]", "opstatus", "running"]`:           `true`,
		`["=[]", "summary", "TEST"]`:               `false`,
		`["=[]", "opprio", -10]`:                   `true`,
		`["=[]", "raw", 3]`:                        `true`,
		`["=[]", "raw", 4]`:                        `false`,
		`["=[]", "empty", 4]`:                      `false`,
		`["=[]", "opprio", "x"]`:                   `: the field "opprio" is not a list of values like "x"`,
		`["=[]", "summary", 5]`:                    `: the field "summary" is not a list of values like 5`,
		`["=[]", "mixed", "a"]`:                    `: the field "mixed" is not a list of values like "a"`,
		`["=[]", "half", 1]`:                       `: the field "half" is not a list of values like 1`,
		`["=[]", "ints", 2]`:                       `true`,
		`["=[]", "ints", "a"]`:                     `: the field "ints" is not a list of values like "a"`,
		`["=[]", "floats", 2]`:                     `true`,
		`["=[]", "absent", 2]`:                     `: the field "absent" is not a list of values like 2`,
		`["==", "broken", 2]`:                      `: the field "broken" cannot be compared with 2`,
		`["==", "no time", 2]`:                     `: the field "no time" cannot be compared with 2`,
		`["=[]", "status", "a"]`:                   `: the field "status" is not a list of values like "a"`,
		`["==", "start_ts", 100]`:                  `true`,
		`["==", "mtime", 100]`:                     `true`,
		`["==", "stamp", 100]`:                     `true`,
		`["==", "pair", 100]`:                      `true`,
		`[">", "start_ts", 100]`:                   `false`,
		`["<", "start_ts", "x"]`:                   `: the field "start_ts" cannot be compared with "x"`,
		`["<", "end_ts", 0]`:                       `true`,
		`["!", ["<", "end_ts", 0]]`:                `false`,
		`["!=", "end_ts", 0]`:                      `false`,
		`["=~", "end_ts", "x"]`:                    `true`,
		`["==", "node", "node1"]`:                  `true`,
		`["==", "node", "node1.example"]`:          `true`,
		`["==", "node", "node1.ex"]`:               `false`,
		`["==", "node", "node1.example.com"]`:      `true`,
		`["!=", "node", "node1"]`:                  `false`,
		`[">", "node", "node1"]`:                   `true`,
		`["&", ["|"], ["==", "id", "5"]]`:          `false`,
		`["|", null, ["==", "id", "5"]]`:           `true`,
		`["|", ["|"], ["&", null, ["?", "nope"]]]`: `[2][2]: unknown field "nope"`,
		`["&", ["==", "id", 5], ["?", "id"]]`:      `[2]: the field "id" is not boolean`,
	} {
		holds, err := parse(t, text).Match(one)
		if err != nil {
			require.IsType(t, &FieldError{}, err)
			require.Equal(t, "filter"+want, err.Error(), text)
			continue
		}
		require.Equal(t, want, fmt.Sprint(holds), text)
	}
}

func TestFloatsAreComparedExactly(t *testing.T) {
	for _, c := range []struct {
		f    float64
		n    int64
		want int
	}{
		{1 << 63, math.MaxInt64, 1}, {-1 << 63, math.MinInt64, 0}, {-1e300, math.MinInt64, -1}, {-0.5, 0, -1}, {0.5, 0, 1},
		{1 << 53, 1<<53 + 1, -1}, {math.Inf(1), math.MaxInt64, 1}, {-1.5, -1, -1}, {-1.5, -2, 1},
	} {
		require.Equal(t, c.want, compareFloat(c.f, c.n), "%v %v", c.f, c.n)
	}
	_, ok := compareNumber(math.NaN(), 0)
	require.False(t, ok)
}

// naive evaluates decoded JSON in the simplest way.
type naive struct{ field func(string) Value }

var errType = errors.New("types differ")

func (n naive) eval(tree any) (bool, error) {
	if tree == nil {
		return true, nil
	}
	list := tree.([]any)
	switch list[0] {
	case "&", "|":
		for _, operand := range list[1:] {
			if holds, err := n.eval(operand); err != nil || holds == (list[0] == "|") {
				return holds, err
			}
		}
		return list[0] == "&", nil
	case "!":
		holds, err := n.eval(list[1])
		return !holds, err
	case "!=":
		holds, err := n.eval([]any{"==", list[1], list[2]})
		return !holds, err
	}
	v := n.field(list[1].(string))
	if v.Status != Normal {
		return true, nil
	}
	switch list[0] {
	case "?":
		flag, ok := v.Data.(bool)
		return flag, check(ok)
	case "=~":
		text, ok := v.Data.(string)
		return ok && regexp.MustCompile(list[2].(string)).MatchString(text), check(ok)
	case "=[]":
		return naiveContains(v.Data, list[2])
	}
	order, err := naiveCompare(v.Data, list[2])
	if err != nil {
		return false, err
	}
	return map[string]bool{"=": order == 0, "==": order == 0, "<": order < 0, ">": order > 0, "<=": order <= 0, ">=": order >= 0}[list[0].(string)], nil
}

func check(ok bool) error {
	if ok {
		return nil
	}
	return errType
}

func naiveContains(data, value any) (bool, error) {
	list, ok := data.([]any)
	if !ok {
		return false, errType
	}
	found := false
	for _, element := range list {
		order, err := naiveCompare(element, value)
		if err != nil {
			return false, err
		}
		found = found || order == 0
	}
	return found, nil
}

func naiveCompare(data, value any) (int, error) {
	if text, ok := value.(string); ok {
		field, ok := data.(string)
		return strings.Compare(field, text), check(ok)
	}
	field, ok := data.(int64)
	number, err := json.Number(fmt.Sprint(value)).Int64()
	switch {
	case !ok || err != nil:
		return 0, errType
	case field < number:
		return -1, nil
	case field > number:
		return 1, nil
	}
	return 0, nil
}

func drawItem(t *rapid.T, normal bool) item {
	one := item{
		"text":   {Data: rapid.SampledFrom([]string{"", "a", "ab", "ba", "ä"}).Draw(t, "text")},
		"number": {Data: rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64()).Draw(t, "number")},
		"flag":   {Data: rapid.Bool().Draw(t, "flag")},
		"list":   {Data: rapid.SampledFrom([]any{[]any{}, []any{int64(1), int64(2)}, []any{"a", ""}, []any{"a", int64(1)}}).Draw(t, "list")},
		"none":   {Data: nil},
		"ä\"":    {Data: "a"},
	}
	if !normal {
		for _, name := range rapid.SliceOf(rapid.SampledFrom([]string{"text", "number", "flag", "list"})).Draw(t, "abnormal") {
			one[name] = Value{Status: rapid.SampledFrom([]ValueStatus{NoData, Unavailable, Offline}).Draw(t, "status"), Data: 5}
		}
	}
	return one
}

func TestMatchAgreesWithANaiveEvaluator(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, tree := drawExpr(t)
		one := drawItem(t, false)
		want, wantErr := naive{one.Field}.eval(tree)
		got, err := e.Match(one)
		require.Equal(t, wantErr != nil, err != nil, "%v, %v", wantErr, err)
		if err == nil {
			require.Equal(t, want, got)
		}
	})
}

// An item that matches with some values of the unknown fields is left. Without unknown fields the result is that of Match.
func TestMayMatchLeavesWhatCanMatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, _ := drawExpr(t)
		one := drawItem(t, false)
		unknown := rapid.SampledFrom([]string{"", "text", "number", "flag"}).Draw(t, "unknown")
		got, err := e.Match(one)
		switch {
		case err != nil:
			require.True(t, e.MayMatch(one, func(string) bool { return false }))
		case got:
			require.True(t, e.MayMatch(one, func(name string) bool { return name == unknown }))
		default:
			require.False(t, e.MayMatch(one, func(string) bool { return false }))
		}
	})
}

// If all values of an item are known, negation is that of logic.
func TestDeMorgan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, _ := drawExpr(t)
		b, _ := drawExpr(t)
		one := drawItem(t, true)
		for _, pair := range [][2]string{
			{`["!",["&",A,B]]`, `["|",["!",A],["!",B]]`}, {`["!",["|",A,B]]`, `["&",["!",A],["!",B]]`}, {`["!",["!",A]]`, `A`}, {`["&",A]`, `["|",A]`},
		} {
			put := strings.NewReplacer("A", a.String(), "B", b.String())
			left, leftErr := parse(t, put.Replace(pair[0])).Match(one)
			right, rightErr := parse(t, put.Replace(pair[1])).Match(one)
			require.Equal(t, left, right)
			require.Equal(t, leftErr != nil, rightErr != nil)
		}
	})
}

func BenchmarkParseManyIDs(b *testing.B) {
	var ids []string
	for i := range 10_000 {
		ids = append(ids, fmt.Sprintf(`["==", "id", %d]`, i))
	}
	data := json.RawMessage(`["|", ` + strings.Join(ids, ", ") + `]`)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = Parse(data)
	}
}
