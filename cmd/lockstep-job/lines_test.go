package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func split(chunks ...string) []string {
	var lines []string
	s := lineSplitter{emit: func(line string) { lines = append(lines, line) }}
	for _, chunk := range chunks {
		_, _ = s.Write([]byte(chunk))
	}
	s.flush()
	return lines
}

func TestLines(t *testing.T) {
	for want, chunks := range map[string][]string{
		"a|b":       {"a\nb\n"},
		"a|b|c":     {"a\nb", "\nc"},
		"a||b":      {"a\n\nb\n"},
		"10 %|20 %": {"10 %\r20 %\r"},
		"dos|file":  {"dos\r", "\nfile\r\n"},
		"|x":        {"\r", "x"},
	} {
		require.Equal(t, want, strings.Join(split(chunks...), "|"), "%q", chunks)
	}
	require.Empty(t, split(""))
}

// However output comes in pieces, the lines are the same, none is longer than
// the bound, and nothing is lost.
func TestLinesDoNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			text.WriteString(strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 7, lineMax - 1, lineMax, lineMax + 1}).Draw(t, "length")))
			text.WriteString(rapid.SampledFrom([]string{"", "\n", "\r", "\r\n"}).Draw(t, "end"))
		}
		whole := text.String()
		cut := rapid.IntRange(0, len(whole)).Draw(t, "cut")
		lines := split(whole)
		require.Equal(t, lines, split(whole[:cut], whole[cut:]))
		require.Equal(t, strings.NewReplacer("\r", "", "\n", "").Replace(whole), strings.Join(lines, ""))
		for _, line := range lines {
			require.LessOrEqual(t, len(line), lineMax)
		}
	})
}
