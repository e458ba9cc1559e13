package doctree

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/longtest"
)

func parsed(t *testing.T, text string) Node {
	t.Helper()
	root, err := ParseJSON([]byte(text))
	require.NoError(t, err)
	return root
}

func encoded(t *testing.T, n Node) string {
	t.Helper()
	text, err := json.Marshal(n)
	require.NoError(t, err)
	return string(text)
}

// Keys keep their order and numbers their digits.
func TestJSONIsWrittenAsItWasRead(t *testing.T) {
	const text = `{"b":1.50,"a":[{},[],"x",null,true],"c":12345678901234567890}`
	require.Equal(t, text, encoded(t, parsed(t, text)))
}

func TestWithLeavesTheFormerObject(t *testing.T) {
	before := parsed(t, `{"a":1,"b":2}`)
	require.Equal(t, `{"a":1,"b":"x"}`, encoded(t, before.With("b", Node{Scalar: "x"})))
	require.Equal(t, `{"a":1,"b":2,"c":[]}`, encoded(t, before.With("c", Node{Kind: List})))
	require.Equal(t, `{"a":1,"b":2}`, encoded(t, before))
	_, found := before.Field("c")
	require.False(t, found)
}

func TestDescribeNamesTheKind(t *testing.T) {
	for text, want := range map[string]string{"[]": "a list", "{}": "an object", "null": "null", `"x"`: "a string", "false": "a boolean", "1": "a number"} {
		require.Equal(t, want, parsed(t, text).Describe(), text)
	}
}

func TestMistakesOfJSONNameTheirPlace(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "1:1: unexpected end of JSON input",
		"[1,\n 2":                "2:2: unexpected end of JSON input",
		"[1,\n ä]":               "2:2: invalid character 'Ã' looking for beginning of value",
		`{"a": 1, "a": 2}`:       `1:10: the key "a" is given twice`,
		`[{"b": {"a":1,"a":2}}]`: `1:15: the key "a" is given twice`,
		"1 2":                    "1:3: invalid character '2' after top-level value",
	} {
		_, err := ParseJSON([]byte(text))
		require.EqualError(t, err, want, text)
	}
	require.EqualError(t, Errorf(Position{}, "no jobs"), "no jobs")
}

// A value that is too deep or too large is one mistake, and its place is known.
func TestYAMLIsBounded(t *testing.T) {
	_, mistakes := ParseYAML([]byte("a: " + strings.Repeat("[", 101) + strings.Repeat("]", 101)))
	require.Len(t, mistakes, 1)
	require.EqualError(t, mistakes[0], "1:104: the file is nested too deeply or its aliases make it too large")

	_, mistakes = ParseYAML([]byte("a: &a [*a]"))
	require.Len(t, mistakes, 1, "a value that contains itself")
	_, mistakes = ParseYAML([]byte("a: !!int x"))
	require.Len(t, mistakes, 1)
	require.EqualError(t, mistakes[0], `1:4: "x" cannot be read as !!int`)
}

// Aliases of aliases make a huge value of a short text. It is one mistake too.
func TestYAMLOfManyAliasesIsBounded(t *testing.T) {
	longtest.Skip(t) // it reads a million nodes
	bomb := "a0: &a0 [1,1,1,1,1,1,1,1,1,1]\n"
	for n := range 6 {
		alias := fmt.Sprintf("*a%d", n)
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", n+1, n+1, strings.Join([]string{alias, alias, alias, alias, alias, alias, alias, alias, alias, alias}, ","))
	}
	documents, mistakes := ParseYAML([]byte(bomb))
	require.Len(t, mistakes, 1)
	require.Len(t, documents, 1)
}
