package rawjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawText draws JSON text with strings of all kinds and white space between the tokens.
func drawText(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
	kinds := 4
	if depth == 0 {
		kinds = 2
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false", "0", "-1.5e+3", "12E2"}).Draw(t, "plain")
	case 1:
		return drawString(t)
	case 2:
		var list []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			list = append(list, space+drawText(t, depth-1)+space)
		}
		return "[" + strings.Join(list, ",") + space + "]"
	default:
		var members []string
		for range rapid.IntRange(0, 3).Draw(t, "members") {
			members = append(members, space+drawString(t)+space+":"+space+drawText(t, depth-1)+space)
		}
		return "{" + strings.Join(members, ",") + space + "}"
	}
}

// drawString draws a string, some longer than the part that is searched byte by byte.
func drawString(t *rapid.T) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", `\\`, `\"`, `\/`, `\b\f\n\r\t`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "é", "]", "}", ",", strings.Repeat("x", 17)}), 0, 8)
	return `"` + strings.Join(parts.Draw(t, "parts"), "") + `"`
}

// A Walker finds the same members and elements as the reader that checks them, and continues
// at a position that another Walker returned.
func TestWalkerFindsWhatTheScannerReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(drawText(t, 3))
		require.NoError(t, Check(raw), "%s", raw)
		var keys, values [][]byte
		isObject := IsObject(raw)
		switch {
		case isObject:
			require.NoError(t, ReadObject(raw, func(key, value []byte) { keys, values = append(keys, key), append(values, value) }))
		case raw[0] == '[':
			require.NoError(t, ReadList(raw, func(value []byte) { values = append(values, value) }))
		default:
			return
		}
		w := Walk(raw)
		for i, want := range values {
			require.True(t, w.More())
			w = WalkFrom(raw, w.Pos())
			if isObject {
				require.Equal(t, string(keys[i]), string(Unquote(w.Key())))
			}
			start, end := w.Value()
			require.Equal(t, string(want), string(raw[start:end]))
		}
		require.False(t, w.More())
	})
}

// Python's form has the same value, is ASCII, and is its own form.
func TestAppendPythonKeepsTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(drawText(t, 3))
		python := AppendPython(nil, raw)
		require.JSONEq(t, string(raw), string(python))
		require.Equal(t, string(python), string(AppendPython(nil, python)))
		require.Equal(t, string(AppendPython(nil, AppendCompact(nil, raw))), string(python))
		require.Less(t, bytes.IndexFunc(python, func(r rune) bool { return r > '~' || r < ' ' }), 0)
	})
	require.Equal(t, "null", string(AppendPython(nil, nil)))
	require.Equal(t, `{"a": ["\b\f\n\r\t", "/", "\ud83d", "A"]}`, string(AppendPython(nil, []byte("{\"a\" :\n[\"\\b\\f\\n\\r\\t\",\"\\/\" ,\"\\ud83d\", \"\\u0041\"] }"))))
}

// Malformed text ends a walk. It does not repeat, and nothing outside of the text is read.
func TestAWalkOfMalformedTextEnds(t *testing.T) {
	for _, text := range []string{"", "{", "[", `{"a`, `{"a"`, `{"a":`, `{"a":}`, `{"a":"b`, `{"a":[1`, `{"a":["b]}`, `["` + strings.Repeat("x", 20), `["` + strings.Repeat("x", 20) + `\"`, "[,]"} {
		w := Walk([]byte(text))
		for n := 0; w.More(); n++ {
			require.LessOrEqual(t, n, len(text), text)
			if IsObject([]byte(text)) {
				w.Key()
			}
			w.Value()
		}
		for range Members([]byte(text)) {
			require.Fail(t, "a member was found", text)
		}
		for range Elements([]byte(text)) {
			require.Fail(t, "an element was found", text)
		}
	}
	require.False(t, IsObject([]byte(" []")))
	require.False(t, IsObject(nil))
	require.Nil(t, Unquote([]byte("1")))
	require.Nil(t, Unquote([]byte(`"\x"`)))
}

func TestScannerErrorsNameTheByte(t *testing.T) {
	for text, want := range map[string]string{
		"-":                      "value: want a digit, found the end of the data (byte 1)",
		"1.x":                    `value: want a digit, found "x" (byte 2)`,
		"1e+":                    "value: want a digit, found the end of the data (byte 3)",
		"[1,-]":                  `value: want a digit, found "]" (byte 4)`,
		"\"a\nb\"":               "value: control character in string (byte 2)",
		`"a`:                     "value: string without end (byte 0)",
		`"\u12"`:                 "value: invalid escape in string (byte 1)",
		`"\`:                     "value: invalid escape in string (byte 1)",
		`{"a`:                    "value: string without end (byte 1)",
		`{1:2}`:                  "value: want a key, found a number (byte 1)",
		`{"a" 1}`:                "value: want ':', found a number (byte 5)",
		`{"a":nul}`:              `value: want a value, found "n" (byte 5)`,
		strings.Repeat("[", 513): "value: nested deeper than 512 levels (byte 512)",
	} {
		require.EqualError(t, Check([]byte(text)), want)
	}
	require.NoError(t, Check([]byte(strings.Repeat("[", DepthMax)+strings.Repeat("]", DepthMax))))
	require.EqualError(t, ReadList([]byte(`["\x"]`), func([]byte) {}), "value: invalid escape in string (byte 2)")
	require.EqualError(t, ReadObject([]byte(`{"a`), func(_, _ []byte) {}), "value: string without end (byte 1)")
}

// The depth of a value is counted from the value, and the depth around it counts again after it.
func TestValueCountsItsDepthAlone(t *testing.T) {
	deep := strings.Repeat("[", DepthMax) + strings.Repeat("]", DepthMax)
	s := NewScanner([]byte("[" + deep + ", -]"))
	more, err := s.Enter('[')
	require.Nil(t, err)
	require.True(t, more)
	value, err := s.Value()
	require.Nil(t, err)
	require.Equal(t, deep, string(value))
	require.Equal(t, len(value), cap(value), "an append must not write into the data")
	more, err = s.Next('[')
	require.Nil(t, err)
	require.True(t, more)
	require.Equal(t, len(deep)+3, s.Pos())
	_, err = s.Value()
	require.NotNil(t, err)
}

func TestScannerReadsIntegersInARange(t *testing.T) {
	s := NewScanner([]byte(" 7 "))
	n, err := s.Integer(0, 7)
	require.Nil(t, err)
	require.EqualValues(t, 7, n)
	require.Nil(t, s.End())
	for text, want := range map[string]string{
		"8":                    "n: want an integer from 0 to 7, found 8 (byte 0)",
		"-1":                   "n: want an integer from 0 to 7, found -1 (byte 0)",
		"1.0":                  "n: want an integer from 0 to 7, found 1.0 (byte 0)",
		"99999999999999999999": "n: want an integer from 0 to 7, found 99999999999999999999 (byte 0)",
		"-":                    "n: want a digit, found the end of the data (byte 1)",
		`"1"`:                  "n: want an integer, found a string (byte 0)",
	} {
		s := NewScanner([]byte(text))
		_, err := s.Integer(0, 7)
		require.NotNil(t, err, text)
		require.EqualError(t, err.Under("n"), want)
	}
	require.True(t, IsNull(json.RawMessage("null")))
	require.False(t, IsNull(json.RawMessage("0")))
}
