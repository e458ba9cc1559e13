package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/follow"
)

// hostileOutput has bytes that text tools do not expect.
func hostileOutput(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for range 20_000 {
		b.WriteByte(byte(random.UintN(256)))
	}
	b.WriteString("\n\n\r\r\n\x00\x00\n10 %\r20 %\r\xff\xfe\x00\nédos\r\n\x1b[31mred\x1b[0m\n")
	b.Write(bytes.Repeat([]byte("é"), 100_000)) // a long line
	b.WriteString("\n")
	b.Write(bytes.Repeat([]byte{0xff}, 70_000))
	b.WriteString("no newline at the end")
	return b.Bytes()
}

// lockstep writes exactly the bytes of a command to the same streams, live and from the log.
func TestOutputIsKeptToTheByteAndTheStream(t *testing.T) {
	socket, dir := realDaemon(t), t.TempDir()
	out, err := filepath.Join(dir, "out"), filepath.Join(dir, "err")
	require.NoError(t, os.WriteFile(out, hostileOutput(1), 0o600))
	require.NoError(t, os.WriteFile(err, hostileOutput(2), 0o600))

	r := runProgram(t, socket, "run", "--strict-output", "--", "sh", "-c", fmt.Sprintf("cat %s; cat %s >&2; exit 3", out, err))
	require.True(t, bytes.Equal(hostileOutput(1), r.out), "standard output is not what the command wrote")
	want := append(hostileOutput(2), "lockstep: job 1 failed: command exited with status 3\n"...)
	require.True(t, bytes.Equal(want, r.err), "standard error is not what the command wrote")
	require.Equal(t, 3, r.code)

	r = runProgram(t, socket, "log", "--strict-output", "1")
	require.True(t, bytes.Equal(hostileOutput(1), r.out))
	require.True(t, bytes.Equal(hostileOutput(2), r.err))
	require.Zero(t, r.code)

	r = runProgram(t, socket, "run", "--", "printf", "abc")
	require.Equal(t, ran{out: []byte("abc"), err: []byte{}}, r)
}

// All output of a command is complete when it ends, at any speed.
func TestTheEndOfTheOutputIsThere(t *testing.T) {
	socket := realDaemon(t)
	r := runProgram(t, socket, "run", "--strict-output", "--", "sh", "-c", "seq 1 2000; seq 1 2000 >&2")
	require.Zero(t, r.code)
	require.Equal(t, 2000, bytes.Count(r.out, []byte("\n")))
	require.Equal(t, r.out, r.err)
}

var (
	gapSaid   = regexp.MustCompile(`(?m)^lockstep: job \d+: missing here: (\d+) lines \((\d+) bytes\) of standard output, after line (\d+)$`)
	totalSaid = regexp.MustCompile(`(?m)^lockstep: job \d+: missing in all: (\d+) of (\d+) lines of standard output \((\d+) of (\d+) bytes\)\. `)
)

// A command writes more than the log keeps, faster than a follower reads: each gap is reported with
// its exact place and size on standard error only.
func TestMissingOutputIsSaidExactly(t *testing.T) {
	const lines = 1_000_000
	socket := realDaemon(t)
	run := runProgram(t, socket, "run", "--strict-output", "--", "seq", "1", strconv.Itoa(lines))
	log := runProgram(t, socket, "log", "1")
	strict := runProgram(t, socket, "log", "--strict-output", "1")
	require.Zero(t, log.code)
	require.Equal(t, follow.ExitIncomplete, strict.code)
	require.Equal(t, log.out, strict.out)
	require.Len(t, gapSaid.FindAll(log.err, -1), 1, "the log has one gap")
	for _, r := range []ran{run, log} {
		shown, next, missing, missingBytes := bytes.Split(bytes.TrimSuffix(r.out, []byte("\n")), []byte("\n")), 1, 0, 0
		take := func(upTo int) {
			for ; next <= upTo; next++ {
				require.Equal(t, strconv.Itoa(next), string(shown[0]))
				shown = shown[1:]
			}
		}
		for _, gap := range gapSaid.FindAllSubmatch(r.err, -1) {
			count, size, after := number(t, gap[1]), number(t, gap[2]), number(t, gap[3])
			take(after)
			for range count {
				size -= len(strconv.Itoa(next)) + 1
				next++
			}
			require.Zero(t, size, "bytes of the gap after line %d", after)
			missing += count
			missingBytes += number(t, gap[2])
		}
		take(lines)
		require.Empty(t, shown)
		if missing == 0 {
			require.Zero(t, r.code)
			continue
		}
		total := totalSaid.FindSubmatch(r.err)
		require.NotNil(t, total, "%s", r.err)
		require.Equal(t, []int{missing, lines, missingBytes, missingBytes + len(r.out)},
			[]int{number(t, total[1]), number(t, total[2]), number(t, total[3]), number(t, total[4])})
	}
	if gapSaid.Match(run.err) {
		require.Equal(t, follow.ExitIncomplete, run.code)
	}
}

func number(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return n
}
