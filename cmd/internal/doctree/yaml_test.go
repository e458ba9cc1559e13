package doctree

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestYAMLBecomesJSON(t *testing.T) {
	documents, mistakes := ParseYAML([]byte("a: [1.50, 0x10, yes, ~, 2026-01-02]\nb: &b {c: 1e3}\nd: *b\n---\nx\n"))
	require.Empty(t, mistakes)
	require.Len(t, documents, 2)
	encoded, err := json.Marshal(documents[0])
	require.NoError(t, err)
	require.Equal(t, `{"a":[1.50,16,"yes",null,"2026-01-02"],"b":{"c":1e3},"d":{"c":1e3}}`, string(encoded))
	alias, _ := documents[0].Field("d")
	require.Equal(t, Position{3, 4}, alias.At)
	require.Equal(t, Position{5, 1}, documents[1].At)
}

func TestAllMistakesOfYAMLAreListed(t *testing.T) {
	documents, mistakes := ParseYAML([]byte("a: .inf\na: 1\n2: 3\n<<: 4\nb: !x y\n---\n- c\n---\n- ]"))
	var texts []string
	for _, err := range mistakes {
		texts = append(texts, err.Error())
	}
	require.Equal(t, []string{
		"1:4: .inf is not a number that JSON has",
		`2:1: the key "a" is given twice`,
		"3:1: a key must be a string, this is a number",
		"4:1: merging with << is not supported; write the keys out",
		"5:4: a value with the tag !x has no JSON form",
		"9: did not find expected node content",
	}, texts)
	require.Len(t, documents, 2)
}

// A mistake has a line also where the parser names none.
func TestAMistakeOfSyntaxHasItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb:\n  - ]\n":                  "3: did not find expected node content",
		"a: 1\nb: [1, 2\n":                   "2: did not find expected ',' or ']'",
		"a: 1\nb: !x!y z\n":                  "2: found undefined tag handle",
		"a:\n  - 1\n  b: 2\n":                "2: did not find expected '-' indicator",
		"a: [1\n\n":                          "1: did not find expected ',' or ']'",
		"a: 1\nb: c: d\n":                    "2: mapping values are not allowed in this context",
		"a: b: c":                            "1: mapping values are not allowed in this context",
		`"abc`:                               "1: found unexpected end of stream",
		"a: &x-y 1\nb: x*x\nc: [*x-y, *x]\n": "3:11: unknown anchor 'x' referenced",
		"é: *x":                              "1:4: unknown anchor 'x' referenced",
		"a: b\nc: d\x01\n":                   "2:5: control characters are not allowed",
		"a: b\nc: \xff\n":                    "2:4: invalid leading UTF-8 octet",
	} {
		_, mistakes := ParseYAML([]byte(text))
		require.Len(t, mistakes, 1, text)
		require.Equal(t, want, mistakes[0].Error(), text)
	}
}
