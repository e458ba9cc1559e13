package jobproc

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func split(chunks ...string) []string {
	var pieces []string
	s := LineSplitter{Emit: func(piece []byte) { pieces = append(pieces, string(piece)) }}
	for _, chunk := range chunks {
		s.Write([]byte(chunk))
	}
	s.Flush()
	return pieces
}

func TestPieces(t *testing.T) {
	for _, c := range []struct{ chunks, want []string }{
		{[]string{"a\nb\n"}, []string{"a\n", "b\n"}},
		{[]string{"a\nb", "\nc"}, []string{"a\n", "b\n", "c"}},
		{[]string{"a\n\nb\n"}, []string{"a\n", "\n", "b\n"}},
		{[]string{"10 %\r20 %\r"}, []string{"10 %\r", "20 %\r"}},
		{[]string{"dos\r", "\nfile\r\n"}, []string{"dos\r", "\n", "file\r\n"}},
		{[]string{"\r", "x"}, []string{"\r", "x"}},
		{[]string{"a\x00\xff", "\n"}, []string{"a\x00\xff\n"}},
	} {
		require.Equal(t, c.want, split(c.chunks...), "%q", c.chunks)
	}
	require.Empty(t, split(""))
}

// In whatever chunks output arrives, the pieces together are the output, no piece is longer than the bound, and a long
// line of text is not cut inside a character.
func TestPiecesAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text bytes.Buffer
		unit := rapid.SampledFrom([]string{"x", "é", "日本", "😀", "\xff", "\x80\x80\x80\x80\x80"}).Draw(t, "unit")
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			length := rapid.SampledFrom([]int{0, 1, 7, pieceMax - 1, pieceMax, pieceMax + 1}).Draw(t, "length")
			text.WriteString(strings.Repeat(unit, length/len(unit)))
			text.WriteString(rapid.SampledFrom([]string{"", "y", "\n", "\r", "\r\n"}).Draw(t, "end"))
		}
		whole := text.String()
		cut := rapid.IntRange(0, len(whole)).Draw(t, "cut")
		pieces := split(whole[:cut], whole[cut:])
		require.True(t, whole == strings.Join(pieces, ""))
		for _, piece := range pieces {
			require.LessOrEqual(t, len(piece), pieceMax)
			require.True(t, utf8.ValidString(piece) || !utf8.ValidString(whole))
			require.LessOrEqual(t, strings.Count(piece, "\n"), 1)
		}
	})
}
