package rawjson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestErrorsNameThePlace(t *testing.T) {
	for data, want := range map[string]string{
		``:               "value: want a value, found the end of the data (byte 0)",
		`{"a":{"b":01}}`: `value.a: want ',' or '}', found a number (byte 11)`,
		`{"a" 1}`:        "value: want ':', found a number (byte 5)",
		`{"a":1} x`:      "value: trailing data (byte 8)",
		`[]`:             "value: want an object, found a list (byte 0)",
		`{null:1}`:       "value: want a key, found null (byte 1)",
	} {
		require.EqualError(t, ReadObject([]byte(data), func(_, _ []byte) {}), strings.Replace(want, "want a value, found the end", "want an object, found the end", 1))
	}
	require.EqualError(t, ReadList([]byte(`{}`), func([]byte) {}), "value: want a list, found an object (byte 0)")
	_, err := ReadText([]byte(`true`))
	require.EqualError(t, err, "value: want a string, found a boolean (byte 0)")
	require.EqualError(t, (&Error{Reason: "r"}).UnderElement(2).Under("log").UnderElement(1).Under("ops"), "ops[1].log[2]: r (byte 0)")
	require.Nil(t, (*Error)(nil).UnderElement(1).Under("a"))
}

// The last of repeated members counts, and its extent is in bytes of the object.
func TestMemberRange(t *testing.T) {
	raw := []byte(` {"a": 1, "\u0061" : [2] } `)
	start, end, isObject := MemberRange(raw, "a")
	require.True(t, isObject)
	require.Equal(t, `[2]`, string(raw[start:end]))
	require.Equal(t, `[2]`, string(Member(raw, "a")))
	start, end, isObject = MemberRange(raw, "b")
	require.True(t, isObject)
	require.Zero(t, start+end)
	for _, bad := range []string{`[]`, `{"a":}`, `{"a":1`, `{a:1}`, `{"a":1}x`} {
		_, _, isObject = MemberRange([]byte(bad), "a")
		require.False(t, isObject, bad)
	}
	require.Nil(t, Member([]byte(`[1]`), "a"))
}

func TestIntegers(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "-1": -1, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		n, ok := ParseInt([]byte(text))
		require.True(t, ok)
		require.Equal(t, want, n)
	}
	for _, text := range []string{"", "-", "+1", "1.0", "9223372036854775808", "-9223372036854775809", "99999999999999999999"} {
		_, ok := ParseInt([]byte(text))
		require.False(t, ok, text)
	}
}

// A quoted string reads as the original.
func TestQuote(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		text, err := ReadText(Quote(s))
		require.NoError(t, err)
		require.Equal(t, strings.ToValidUTF8(s, "\ufffd"), text)
		require.Equal(t, text, string(Unquote(Quote(s))))
	})
	require.Equal(t, `"\u00e9\ud83d\ude00\n\"\\\u007f\ufffd/"`, string(Quote("é😀\n\"\\\x7f\xff/")))
}

func TestClipped(t *testing.T) {
	require.Equal(t, "nothing", Clipped(" \n"))
	require.Equal(t, "[1]", Clipped([]byte(" [1] ")))
	require.Equal(t, strings.Repeat("x", 99)+"…", Clipped(strings.Repeat("x", 99)+"éé"))
	require.Equal(t, `"a\n"`, Quoted("a\n"))
	require.Equal(t, `"`+strings.Repeat("x", 100)+`"…`, Quoted(strings.Repeat("x", 101)))
}
