package swf

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const good = "7 10 -1 5.5 4 -1 -1 8 -1 -1 1 3 1 -1 2 -1 6 30"

func readAll(text string) (Header, []Job, error) {
	r := NewReader(strings.NewReader(text))
	var jobs []Job
	for {
		j, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header(), jobs, nil
		}
		if err != nil {
			return r.Header(), jobs, err
		}
		jobs = append(jobs, j)
	}
}

func TestATraceIsRead(t *testing.T) {
	header, jobs, err := readAll("; MaxNodes: 32 (two are spare)\r\n;maxprocs:64\n;\n; Note: MaxProcs: 7\n\n\t" + good + " \r\n; end\n")
	require.NoError(t, err)
	require.Equal(t, Header{MaxNodes: 32, MaxProcs: 64}, header)
	require.Equal(t, []Job{{Line: 6, Number: 7, Submit: 10, Wait: Unknown, Run: 5.5, Allocated: 4, CPU: -1, Memory: -1, Requested: 8,
		RequestedTime: -1, RequestedMemory: -1, Status: Completed, User: 3, Group: 1, Executable: -1, Queue: 2, Partition: -1,
		Preceding: 6, Think: 30}}, jobs)
}

func TestHeadersThatSayNothing(t *testing.T) {
	header, jobs, err := readAll("; MaxNodes: many\n; MaxProcs:\n; MaxProcs: -5\n; MaxNodes: 99999999999999\n")
	require.NoError(t, err)
	require.Zero(t, header)
	require.Empty(t, jobs)
}

func TestWrongLinesAreNamed(t *testing.T) {
	for text, wants := range map[string]string{
		"; a\n" + good + "\n1 2 3\n":                 "line 3: 3 fields, want 18",
		strings.Replace(good, "5.5", "x", 1):         `line 1: field 4, run time: "x" is not a number`,
		strings.Replace(good, "5.5", "NaN", 1):       `field 4, run time: "NaN" is not a number`,
		strings.Replace(good, "5.5", "-2", 1):        `field 4, run time: "-2" is neither -1 nor from 0 to 100 years`,
		strings.Replace(good, "5.5", "1e300", 1):     `field 4, run time: "1e300" is neither`,
		strings.Replace(good, " 8 ", " 8.5 ", 1):     `field 8, requested processors: "8.5" is not a whole number`,
		good + "\n" + strings.Repeat("1", lineMax+1): "line 2: longer than 65536 bytes",
	} {
		_, _, err := readAll(text)
		var wrong *LineError
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, wants)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestAReaderThatFails(t *testing.T) {
	_, err := NewReader(io.MultiReader(strings.NewReader("; a\n"), failing{})).Next()
	require.EqualError(t, err, "after line 1: the disk is gone")
}

// Any text gives jobs with values in range, or an error that names the line.
func requireBounded(t require.TestingT, text string) {
	_, jobs, err := readAll(text)
	lines := strings.Count(text, "\n") + 1
	require.LessOrEqual(t, len(jobs), lines)
	for _, j := range jobs {
		for _, v := range []float64{j.Submit, j.Wait, j.Run, j.Think} {
			require.True(t, v == Unknown || v >= 0 && v <= TimeMax, "%v", v)
		}
		require.True(t, j.Line >= 1 && j.Line <= lines)
	}
	var wrong *LineError
	if errors.As(err, &wrong) {
		require.True(t, wrong.Line >= 1 && wrong.Line <= lines)
	} else {
		require.NoError(t, err)
	}
}

func TestAnyTextIsReadOrRefused(t *testing.T) {
	word := rapid.OneOf(rapid.SampledFrom([]string{"-1", "0", "1", "5", "1e99", "NaN", "-0", "0x1p4", ";", "; MaxProcs: 4", "\n"}),
		rapid.StringMatching(`-?[0-9]{1,20}(\.[0-9]{1,3})?`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		var b strings.Builder
		for range rapid.IntRange(0, 5).Draw(t, "lines") {
			n := rapid.SampledFrom([]int{17, 18, 18, 18, 19}).Draw(t, "fields")
			b.WriteString(strings.Join(rapid.SliceOfN(word, n, n).Draw(t, "words"), " ") + "\n")
		}
		requireBounded(t, b.String())
	})
}

func FuzzReader(f *testing.F) {
	f.Add(good)
	f.Add("; MaxProcs: 64\n" + good + "\n1 2")
	f.Fuzz(func(t *testing.T, text string) { requireBounded(t, text) })
}
