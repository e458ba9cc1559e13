package job

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"lockstep/core/rawjson"
)

// DecodeOutput returns the bytes that EncodeOutput received, also after a JSON library has read and written the entry.
// OutputOf counts them.
func TestPiecesOfOutputComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
			rapid.SampledFrom([][]byte{nil, {'\n'}, {'\r', '\n'}, {0}, []byte("a\\\"\x7f\u2028<&\n"), {0xff, 0xfe, 0, '\n'}}),
		).Draw(t, "piece")
		if rapid.Bool().Draw(t, "line") {
			piece = append(bytes.Clone(piece), '\n')
		}
		stream := rapid.SampledFrom([]string{LogStdout, LogStderr}).Draw(t, "stream")
		typ, payload := EncodeOutput(stream, piece)
		var value any
		require.NoError(t, json.Unmarshal(payload, &value))
		again, err := json.Marshal(value)
		require.NoError(t, err)
		for _, form := range []json.RawMessage{payload, again} {
			from, got, ok := DecodeOutput(typ, form)
			require.True(t, ok)
			require.Equal(t, stream, from)
			require.True(t, bytes.Equal(piece, got), "%q became %q", piece, got)
			volume := StreamOutput{Lines: int64(bytes.Count(piece, []byte("\n"))), Bytes: int64(len(piece))}
			want := Output{Stdout: volume}
			if stream == LogStderr {
				want = Output{Stderr: volume}
			}
			require.Equal(t, want, OutputOf(typ, form))
		}
		require.Equal(t, !utf8.Valid(piece), typ == stream+"-base64")
	})
}

func TestOtherEntriesAreNoOutput(t *testing.T) {
	for _, typ := range []string{LogMessage, "jqueue-test", "stdout-", "stdoutpart", ""} {
		_, _, ok := DecodeOutput(typ, rawjson.Quote("x"))
		require.False(t, ok, typ)
		require.Equal(t, Output{Messages: 1}, OutputOf(typ, rawjson.Quote("x")))
	}
	_, _, ok := DecodeOutput("stdout-base64", rawjson.Quote("no base64!"))
	require.False(t, ok)
	require.Equal(t, Output{}, OutputOf(LogMissing, json.RawMessage(`{}`)))
}

// A reader misses nothing only if each entry of output, and each entry that stands for missing output, can be decoded, and
// no process had the output open at the end. In messages, for Ganeti's daemon, these entries mean the same.
func TestWhatAReaderCannotHaveIsCounted(t *testing.T) {
	open, streams := EncodeOpen([]string{LogStderr})
	for _, c := range []struct {
		typ, payload string
		complete     bool
	}{
		{LogStdout, `"one"`, true},
		{LogStdout, `"o\u0000ne"`, true},
		{"stdout-base64", `"aGk="`, true},
		{"jqueue-test", `7`, true},
		{LogMessage, `"[note] text"`, true},
		{LogMissing, `{"written":{"stdout":{"lines":0,"bytes":0}}}`, true},
		{LogMissing, `{"written":{"stdout":{"lines":0,"bytes":1}}}`, false},
		{LogMissing, `7`, false},
		{"stdout-base64", `"no base64!"`, false},
		{LogStderr, `7`, false},
		{LogStderr, `["a\\b"]`, false},
		{open, string(streams), false},
		{LogCut, `null`, false},
	} {
		typ, payload := c.typ, json.RawMessage(c.payload)
		for range 2 {
			var account OutputAccount
			account.Add(typ, payload)
			complete := account.Missing == (Output{}) && account.Unreadable == 0 && !account.Uncertain
			require.Equal(t, c.complete, complete, "%s %s", c.typ, payload)
			typ, payload = AsMessage(typ, payload)
		}
	}
}
