package query

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func parse(t require.TestingT, text string) *Expr {
	e, err := Parse(json.RawMessage(text))
	require.NoError(t, err, text)
	return e
}

func TestExpressionsAreReadAndPrinted(t *testing.T) {
	for text, want := range map[string]string{
		``:                                `["&"]`,
		` null `:                          `["&"]`,
		`["&"]`:                           `["&"]`,
		`["|"]`:                           `["|"]`,
		`["|", null]`:                     `["|",["&"]]`,
		`["=", "id", 5]`:                  `["==","id",5]`,
		`["==", "id", -0.5e1]`:            `["==","id",-5]`,
		`["<", "t", 9223372036854775807]`: `["<","t",9223372036854775807]`,
		`["!=", "name", "\u00e4/"]`:       `["!=","name","\u00e4/"]`,
		`["!", ["?", "archived"]]`:        `["!",["?","archived"]]`,
		`["=~", "summary", "^a.*\\d$"]`:   `["=~","summary","^a.*\\d$"]`,
		`["=[]", "tags", "x"]`:            `["=[]","tags","x"]`,
		"[\"&\",\n[\"<=\", \"a\", 1], [\">=\", \"a\", 2], [\">\", \"b\", \"\"]]": `["&",["<=","a",1],[">=","a",2],[">","b",""]]`,
	} {
		require.Equal(t, want, parse(t, text).String(), text)
	}
}

func TestWhatIsWrongIsNamedWithItsPlace(t *testing.T) {
	deep := strings.Repeat(`["!",`, depthMax) + `["?","a"]` + strings.Repeat(`]`, depthMax)
	long := `["=~","a","` + strings.Repeat("a*", patternMax) + `"]`
	for text, want := range map[string]string{
		`5`:                             `filter: an expression is null, or a list that begins with an operator; found the number 5`,
		`{}`:                            `filter: an expression is null, or a list that begins with an operator; found an object`,
		`[]`:                            `filter: an expression is null, or a list that begins with an operator; found an empty list`,
		`["&", ["|", true]]`:            `filter[1][1]: an expression is null, or a list that begins with an operator; found true`,
		`[["&"]]`:                       `filter[0]: an operator is a string, found a list`,
		`["!", ["=*", "a", "b"]]`:       `filter[1][0]: unknown operator "=*", allowed are & | ! ? == != < > <= >= =~ =[] and =`,
		`["!"]`:                         `filter: "!" has 1 operand, an expression; found 0 operands`,
		`["!", null, null]`:             `filter: "!" has 1 operand, an expression; found 2 operands`,
		`["&", null, ["?"]]`:            `filter[2]: "?" has 1 operand, a field; found 0 operands`,
		`["=", "a"]`:                    `filter: "=" has 2 operands, a field and what to compare it with; found 1 operands`,
		`["<", "a", 1, 2]`:              `filter: "<" has 2 operands, a field and what to compare it with; found 3 operands`,
		`["<", 1, 2]`:                   `filter[1]: the name of a field is a string, found the number 1`,
		`["<", "a", 1.5]`:               `filter[2]: 1.5 is not a whole number`,
		`["<", "a", 1e19]`:              `filter[2]: the number 1e19 is out of range`,
		`["<", "a", 1e999999999999999]`: `filter[2]: the number 1e999999999999999 is out of range`,
		`["<", "a", 0.` + strings.Repeat("1", 200) + `]`: `filter[2]: 0.` + strings.Repeat("1", 98) + `… is not a whole number`,
		`["` + strings.Repeat("x", 200) + `"]`:           `filter[0]: unknown operator "` + strings.Repeat("x", 100) + `"…, allowed are & | ! ? == != < > <= >= =~ =[] and =`,
		`["<", "a", true]`:                               `filter[2]: a value is a string or a whole number, found true`,
		`["<", "a", null]`:                               `filter[2]: a value is a string or a whole number, found null`,
		`["|", ["=~", "a", 5]]`:                          `filter[1][2]: a pattern is a string, found the number 5`,
		`["&", null, ["=~", "a", "(b"]]`:                 "filter[2][2]: the pattern \"(b\" is not in RE2 syntax: error parsing regexp: missing closing ): `(b`",
		`["=~", "a", "(?=b)"]`:                           "filter[2]: the pattern \"(?=b)\" is not in RE2 syntax: error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
		`["=~", "a", "(b)\\1"]`:                          "filter[2]: the pattern \"(b)\\\\1\" is not in RE2 syntax: error parsing regexp: invalid escape sequence: `\\1`",
		`["&"`:                                           `filter: not valid JSON: unexpected end of JSON input`,
		`null null`:                                      `filter: not valid JSON: invalid character 'n' after top-level value`,
		deep:                                             `filter` + strings.Repeat(`[1]`, depthMax) + `: nested too deeply, at most 256 levels are allowed`,
		long:                                             `filter[2]: a pattern of 65536 bytes is too long, at most 32768 are allowed`,
		strings.Repeat(" ", SizeMax) + "[]":              `filter: 4194306 bytes are too many, at most 4194304 are allowed`,
	} {
		_, err := Parse(json.RawMessage(text))
		var wrong *ParseError
		require.ErrorAs(t, err, &wrong, text)
		require.Equal(t, want, err.Error())
	}
}

func TestTooManyPatterns(t *testing.T) {
	var same, different []string
	for i := range patternsMax + 1 {
		same = append(same, `["=~","a","b+"]`)
		different = append(different, `["=~","a","`+strings.Repeat("b?", 1+i%200)+strings.Repeat("c", i/200)+`"]`)
	}
	parse(t, `["|",`+strings.Join(same, ",")+`]`)
	_, err := Parse(json.RawMessage(`["|",` + strings.Join(different, ",") + `]`))
	require.ErrorContains(t, err, "[101][2]: too many patterns, at most 100 different ones are allowed")
}

func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		`["==", "id", 5]`: `5`,
		`["|", ["==", "id", 5], ["=", "id", 3], ["|", ["==", "id", "x"], ["|"]], ["==", "id", 5]]`: `5,3,"x",5`,
		`["|"]`:                                  ``,
		`null`:                                   `no`,
		`["&"]`:                                  `no`,
		`["|", null]`:                            `no`,
		`["!=", "id", 5]`:                        `no`,
		`["&", ["==", "id", 5]]`:                 `no`,
		`["|", ["==", "id", 5], ["<", "id", 3]]`: `no`,
		`["|", ["==", "id", 5], ["==", "uuid", 5]]`:   `no`,
		`["!", ["!", ["==", "id", 5]]]`:               `no`,
		`["|", ["==", "id", 5], ["=~", "id", "\\+"]]`: `no`,
	} {
		names, only := parse(t, text).FieldValues("id")
		if want == "no" {
			require.False(t, only, text)
			require.Empty(t, names)
			continue
		}
		var got []string
		for _, name := range names {
			got = append(got, name.String())
		}
		require.True(t, only, text)
		require.Equal(t, want, strings.Join(got, ","))
	}
}

func TestFieldsAreListedAndChecked(t *testing.T) {
	e := parse(t, `["|", ["?", "b"], ["!=", "a", 1], ["&", ["!", ["==", "b", 2]], ["=~", "c", "x"]]]`)
	require.Equal(t, []string{"b", "a", "c"}, e.Fields())
	require.NoError(t, e.CheckFields(func(string) bool { return true }))

	err := e.CheckFields(func(name string) bool { return name != "c" })
	require.Equal(t, &FieldError{Path: "[3][2]", Field: "c", Reason: `unknown field "c"`}, err)
	require.Equal(t, `filter[3][2]: unknown field "c"`, err.Error())
	require.Equal(t, "[3][1][1]", e.Path(2))
	require.Equal(t, "[2]", e.Path(1))
}

// genExpr draws an expression as the text a client might send.
func genExpr(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		field := rapid.SampledFrom([]string{"text", "number", "flag", "list", "none", "ä\""}).Draw(t, "field")
		op := rapid.SampledFrom([]string{"&", "|", "!", "?", "=", "==", "!=", "<", ">", "<=", ">=", "=~", "=[]"}).Draw(t, "op")
		if depth == 0 && (op == "&" || op == "|" || op == "!") {
			op = "=="
		}
		switch op {
		case "&", "|":
			list := []any{op}
			for range rapid.IntRange(0, 3).Draw(t, "operands") {
				list = append(list, genExpr(depth-1).Draw(t, "operand"))
			}
			return list
		case "!":
			return []any{op, genExpr(depth-1).Draw(t, "operand")}
		case "?":
			return []any{op, field}
		case "=~":
			return []any{op, field, rapid.SampledFrom([]string{"", "a", "^a", "b$", "a|b", ".", "[^a]"}).Draw(t, "pattern")}
		}
		return []any{op, field, genValue().Draw(t, "value")}
	})
}

func genValue() *rapid.Generator[any] {
	return rapid.OneOf(
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b", "ab", "ä"}), func(s string) any { return s }),
		rapid.Map(rapid.IntRange(-2, 2), func(n int) any { return n }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }),
	)
}

func drawExpr(t *rapid.T) (*Expr, any) {
	tree := genExpr(4).Draw(t, "expression")
	text, err := json.Marshal(tree)
	require.NoError(t, err)
	return parse(t, string(text)), tree
}

func TestPrintingAndReadingAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, tree := drawExpr(t)
		require.Equal(t, e, parse(t, e.String()))

		var printed, drawn any
		require.NoError(t, json.Unmarshal([]byte(e.String()), &printed))
		text, err := json.Marshal(tree)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(text), `["=",`, `["==",`)), &drawn))
		require.Equal(t, drawn, printed)
	})
}

func TestNumbersAreComparedExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-30, 30)).Draw(t, "n")
		spelled := rapid.OneOf(
			rapid.StringMatching(`-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?`),
			rapid.Map(rapid.Int64(), func(n int64) string { return big.NewInt(n).String() + "000e-3" }),
		).Draw(t, "spelled")
		exact, ok := new(big.Rat).SetString(spelled)
		require.True(t, ok, spelled)
		require.Equal(t, exact.Cmp(new(big.Rat).SetInt64(n)), CompareNumber([]byte(spelled), n))
		require.Equal(t, exact.IsInt(), IsWhole([]byte(spelled)))

		whole, isWhole, fits := wholeNumber(spelled)
		require.Equal(t, exact.IsInt(), isWhole)
		require.Equal(t, exact.IsInt() && exact.Num().IsInt64(), fits)
		if fits {
			require.Equal(t, exact.Num().Int64(), whole)
		}
	})
	for spelled, want := range map[string]int{"1e400": 1, "-1e99999999999999999999": -1, "1e-99999999999999999999": 1, "-0.0e5": 0, "0": 0} {
		require.Equal(t, want, CompareNumber([]byte(spelled), 0), spelled)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`null`, ``, `["&"]`, `["|", ["==", "id", 5], ["=", "id", "\ud800"]]`, `["!", ["!", ["?", "archived"]]]`,
		`["&", ["=~", "summary", "^(a|b)+?\\pL{2,3}$"], ["=[]", "x.y", -1e2], ["!=", "z", "watermark"]]`, `["!", [`, `[[]]`, `["<=", "a", 0.1e1] x`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Parse(data)
		if err != nil {
			var wrong *ParseError
			require.ErrorAs(t, err, &wrong)
			require.NotEmpty(t, wrong.Reason)
			return
		}
		require.Equal(t, e.String(), parse(t, e.String()).String())
		for i := range e.Leaves() {
			require.NotPanics(t, func() { _ = e.Path(Step(i)) })
		}
		_, _ = e.FieldValues("id")
		holds, err := e.Match(fixed{Unavailable, ComparePlain, nil})
		require.NoError(t, err)
		require.Equal(t, whereAllHold(t, e.String()), holds)
	})
}

// fixed is an item of which all fields have the same value.
type fixed Value

func (f fixed) Field(string) Value { return Value(f) }

// whereAllHold is the result of an expression if every leaf except != holds.
func whereAllHold(t require.TestingT, text string) bool {
	var tree any
	require.NoError(t, json.Unmarshal([]byte(text), &tree))
	holds, err := naive{func(string) Value { return Value{Status: Unavailable} }}.eval(tree)
	require.NoError(t, err)
	return holds
}
