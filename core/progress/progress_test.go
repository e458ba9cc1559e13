package progress

import (
	"math"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]Line{
		"40 copying disk 2":     {40, "copying disk 2"},
		"40% copying disk 2":    {40, "copying disk 2"},
		"  12.34\tof the files": {12.3, "of the files"},
		"100":                   {100, ""},
		"0%":                    {0, ""},
		"copying disk 2":        {Unknown, "copying disk 2"},
		"- 2 disks are left":    {Unknown, "2 disks are left"},
		"-":                     {Unknown, ""},
		"101 files":             {Unknown, "101 files"},
		"-3 files":              {Unknown, "-3 files"},
		"1e1 files":             {Unknown, "1e1 files"},
		"1.2.3 is new":          {Unknown, "1.2.3 is new"},
		"% done":                {Unknown, "% done"},
		"NaN":                   {Unknown, "NaN"},
		"50 \x1b[31mred\x00\a":  {50, "[31mred"},
		"50 a\u202eb":           {50, "a b"},
		"50 \xff!":              {50, "\ufffd!"},
	} {
		got, ok := Parse(line)
		require.True(t, ok, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"", " ", "\t"} {
		_, ok := Parse(line)
		require.False(t, ok)
	}
}

// TestAnyBytes: whatever a command writes, in whatever pieces, a line is within its bounds, is that of the last line's end, and is read
// again from its own text.
func TestAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Reader
		var all []byte
		for _, piece := range rapid.SliceOf(rapid.OneOf(
			rapid.SliceOf(rapid.Byte()), rapid.SliceOf(rapid.SampledFrom([]byte("40% x\n\r- ."))),
		)).Draw(t, "pieces") {
			all = append(all, piece...)
			l, ok := r.Read(piece)
			require.LessOrEqual(t, cap(r.partial), 2*lineMax)
			if !ok {
				continue
			}
			require.Equal(t, l, l.Bounded())
			require.LessOrEqual(t, len(l.Text), TextMax)
			require.True(t, utf8.ValidString(l.Text))
			require.Equal(t, -1, strings.IndexFunc(l.Text, func(r rune) bool { return !unicode.IsPrint(r) }))
			again, _ := Parse(l.String())
			require.Equal(t, l, again)
			lines := strings.FieldsFunc(string(all), func(r rune) bool { return r == '\n' || r == '\r' })
			if last := len(lines) - 1; strings.HasSuffix(string(all), "\n") && strings.TrimSpace(lines[last]) != "" && len(lines[last]) < lineMax {
				want, _ := Parse(lines[last])
				require.Equal(t, want, l)
			}
		}
	})
}

func TestALineWithoutEnd(t *testing.T) {
	var r Reader
	flood := []byte(strings.Repeat("a", 1<<16))
	for range 100 {
		_, ok := r.Read(flood)
		require.False(t, ok)
	}
	l, ok := r.Read([]byte("\n7 next\n8 unfinished"))
	require.True(t, ok)
	require.Equal(t, Line{7, "next"}, l)
	l, ok = r.Read([]byte(" line\r"))
	require.True(t, ok)
	require.Equal(t, Line{8, "unfinished line"}, l)
}

func TestBounded(t *testing.T) {
	require.Equal(t, Line{100, "a b"}, Line{1e300, "a\nb"}.Bounded())
	require.Equal(t, Line{Unknown, ""}, Line{math.NaN(), ""}.Bounded())
	require.Equal(t, Line{Unknown, ""}, Line{math.Inf(-1), ""}.Bounded())
}

func TestEnd(t *testing.T) {
	since := time.Unix(1000, 0)
	at := func(percent float64, after time.Duration) time.Time { return End(percent, since, since.Add(after)) }
	require.Equal(t, since.Add(100*time.Second), at(40, 40*time.Second))
	require.Equal(t, since.Add(time.Second), at(100, time.Second))
	require.Equal(t, since.Add(100*time.Second), at(1, time.Second))
	for _, none := range []time.Time{at(0, time.Second), at(0.9, time.Second), at(Unknown, time.Second), at(50, -time.Second), at(1, horizon), End(50, time.Time{}, since)} {
		require.Zero(t, none)
	}
}
