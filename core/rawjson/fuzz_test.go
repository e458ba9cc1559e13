package rawjson

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

var seeds = []string{
	`-0.0e+1`, `01`, `1.`, `"\uD800"`, "\"\xff\"", "\"\x7f\"", `[1,]`, `{"a":1,}`, `nulll`, ` `, ``, `"`, `"\`, `{`, `[`, `{"a"`, `{"a":`, `{"a":}`, `{1:2}`,
	`{"a":1 "b":2}`, `[1 2]`, `[,]`, `}`, ` [ "\\" , {"\"]}" : [ ] } ] `, `{"id": 7, "ops": [{"input": "\ud800\/é", "log": [[1,null,"\u00e4",[ ]]]}]}`,
}

// Check accepts the same texts as encoding/json, except those deeper than DepthMax.
func FuzzCheck(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		original := bytes.Clone(data)
		err := Check(data)
		if err == nil {
			require.True(t, json.Valid(data))
			requirePython(t, data)
		} else if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) <= DepthMax {
			require.False(t, json.Valid(data), "%v", err)
		}
		require.Equal(t, original, data)
	})
}

// requirePython checks that Python's form is ASCII, has the same value, and does not change when it is written again.
func requirePython(t *testing.T, valid []byte) {
	python := AppendPython(nil, valid)
	require.True(t, json.Valid(python))
	require.Equal(t, -1, slices.IndexFunc(python, func(c byte) bool { return c < ' ' || c > '~' }))
	require.Equal(t, string(python), string(AppendPython(nil, python)))
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, valid))
	require.Equal(t, compact.String(), string(AppendCompact(nil, valid)))
}

// Walking any bytes ends, without a panic. Walking valid text finds the parts that the checking functions find.
func FuzzWalk(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		walkAll(data, 0)
		_ = AppendCompact(nil, data)
		if Check(data) == nil {
			requireSameParts(t, bytes.TrimSpace(data))
		}
	})
}

func walkAll(data []byte, depth int) {
	_ = Unquote(data)
	_ = Member(data, "a")
	if depth > 20 {
		return
	}
	for key, value := range Members(data) {
		_ = Unquote(key)
		walkAll(value, depth+1)
	}
	for value := range Elements(data) {
		walkAll(value, depth+1)
	}
}

func requireSameParts(t *testing.T, valid []byte) {
	var want, got []string
	switch valid[0] {
	case '{':
		require.NoError(t, ReadObject(valid, func(key, value []byte) {
			want = append(want, string(key), string(value))
			requireSameParts(t, value)
		}))
		for key, value := range Members(valid) {
			got = append(got, string(Unquote(key)), string(value))
		}
	case '[':
		require.NoError(t, ReadList(valid, func(value []byte) {
			want = append(want, string(value))
			requireSameParts(t, value)
		}))
		for value := range Elements(valid) {
			got = append(got, string(value))
		}
	case '"':
		text, err := ReadText(valid)
		require.NoError(t, err)
		var decoded string
		require.NoError(t, json.Unmarshal(valid, &decoded))
		want, got = []string{text, text}, []string{decoded, string(Unquote(valid))}
	}
	require.Equal(t, want, got)
}
