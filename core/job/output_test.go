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
