package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/core/job"
)

// started is a program whose standard output nobody reads but the test.
type started struct {
	cmd *exec.Cmd
	out *bufio.Reader
}

func startProgram(t *testing.T, socket string, args ...string) started {
	t.Helper()
	cmd := exec.Command(program(t, "lockstep"), args...)
	cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return started{cmd, bufio.NewReaderSize(out, 16)}
}

// Who runs a command has all of its output, which the log has not.
func TestWhoRunsACommandHasAllOfItsOutput(t *testing.T) {
	socket, file := realDaemon(t), filepath.Join(t.TempDir(), "file")
	random := rand.NewChaCha8([32]byte{7})
	content := make([]byte, 30_000_000)
	_, err := random.Read(content)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, content, 0o600))

	r := runProgram(t, socket, "run", "--", "cat", file)
	require.Zero(t, r.code, "%s", r.err)
	require.True(t, bytes.Equal(content, r.out), "%d bytes", len(r.out))
	log := runProgram(t, socket, "log", "1")
	require.Equal(t, follow.ExitIncomplete, log.code)
	require.Contains(t, string(log.err), "of 30000000 bytes")
	require.Zero(t, runProgram(t, socket, "log", "--partial", "1").code)

	r = runProgram(t, socket, "run", "--json", "--", "sh", "-c", "head -c 6000000 "+file+"; exit 3")
	require.Equal(t, 3, r.code, "%s", r.err)
	var output []byte
	for _, line := range bytes.Split(bytes.TrimSpace(r.out), []byte("\n")) {
		var e struct {
			Type    string          `json:"type"`
			Payload json.RawMessage `json:"payload"`
		}
		require.NoError(t, json.Unmarshal(line, &e))
		if stream, piece, ok := job.DecodeOutput(e.Type, e.Payload); ok {
			require.Equal(t, job.LogStdout, stream)
			output = append(output, piece...)
		}
	}
	require.True(t, bytes.Equal(content[:6_000_000], output), "%d bytes", len(output))
}

// Who submits jobs and follows them has all of their output, each line with the id of its job.
func TestWhoSubmitsJobsAndFollowsThemHasAllOfTheirOutput(t *testing.T) {
	socket, file := realDaemon(t), filepath.Join(t.TempDir(), "jobs.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`jobs:
- [{OP_ID: OP_RUN_COMMAND, argv: [seq, "1", "600000"]}]
- [{OP_ID: OP_RUN_COMMAND, argv: [sh, -c, "seq 1 600000; exit 3"]}]
`), 0o600))
	r := runProgram(t, socket, "submit", "--follow", file)
	require.Equal(t, 3, r.code, "%s", r.err)
	for _, prefix := range []string{"1| ", "2| "} {
		next := 1
		for line := range strings.SplitSeq(string(r.out), "\n") {
			if text, is := strings.CutPrefix(line, prefix); is {
				require.Equal(t, strconv.Itoa(next), text)
				next++
			}
		}
		require.Equal(t, 600_001, next)
	}
}

// A watch that takes nothing slows neither the command nor its follower.
func TestAWatchThatReadsNothingSlowsNobody(t *testing.T) {
	socket, dir := realDaemon(t), t.TempDir()
	t.Chdir(dir)
	run := startProgram(t, socket, "run", "--", "sh", "-c", "echo began; while [ ! -e go ]; do sleep 0.01; done; seq 1 3000000")
	first, err := run.out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "began\n", first)
	watch := startProgram(t, socket, "watch", "1")
	for line := ""; line != "began\n"; {
		line, err = watch.out.ReadString('\n')
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile("go", nil, 0o600))
	lines := 0
	for {
		part, err := run.out.ReadSlice('\n')
		if lines += bytes.Count(part, []byte("\n")); err != nil && len(part) == 0 {
			break
		}
	}
	require.NoError(t, run.cmd.Wait())
	require.Equal(t, 3_000_000, lines)
}

// The output of a command waits for who follows it, and list and why say so. When the follower is killed, the command goes on.
func TestACommandGoesOnWhenItsFollowerIsKilled(t *testing.T) {
	socket, dir := realDaemon(t), t.TempDir()
	t.Chdir(dir)
	run := startProgram(t, socket, "run", "--", "sh", "-c", "seq 1 3000000; : > done")
	require.Eventually(t, func() bool {
		return strings.Contains(string(runProgram(t, socket, "list").out), "running, waits for its reader")
	}, realPatience, 100*time.Millisecond)
	require.Contains(t, string(runProgram(t, socket, "why", "1").out), "Its output waits for its reader, the command that follows it, since ")
	require.NoFileExists(t, "done")
	require.NoError(t, run.cmd.Process.Kill())
	require.Zero(t, runProgram(t, socket, "wait", "1").code)
	require.FileExists(t, "done")
}

// The files have all that a command has written. Who runs it, and reads too slowly for its process, and who reads its log later, get all.
func TestKeptOutputIsWhole(t *testing.T) {
	socket := realDaemon(t)
	run := runProgram(t, socket, "run", "--keep-output", "--", "sh", "-c", "head -c 20000000 /dev/urandom; seq 1 300000 >&2; exit 3")
	require.Equal(t, 3, run.code)
	require.Len(t, run.out, 20_000_000)
	for _, args := range [][]string{{"log", "1"}, {"log", "--follow", "1"}} {
		r := runProgram(t, socket, args...)
		require.Zero(t, r.code)
		require.True(t, bytes.Equal(run.out, r.out), "%d bytes", len(r.out))
		require.Len(t, r.err, 1_988_895)
	}
	watch := runProgram(t, socket, "watch", "1")
	require.Equal(t, 3, watch.code)
	require.NotContains(t, string(watch.err), "missing here")
}

// A job process that is killed had kept more than it had logged.
func TestKeptOutputOfAKilledProcess(t *testing.T) {
	socket := realDaemon(t)
	kept := filepath.Join(filepath.Dir(socket), "../../lib/output/1/0.stdout")
	run := runProgram(t, socket, "run", "--keep-output", "--env", "KEPT="+kept, "--", "sh", "-c",
		"seq 1 200000; until [ $(wc -c < $KEPT) = 1288895 ]; do sleep 0.01; done; kill -KILL $PPID")
	require.Equal(t, follow.ExitIncomplete, run.code)
	log := runProgram(t, socket, "log", "1")
	require.Equal(t, follow.ExitIncomplete, log.code)
	require.Len(t, log.out, 1_288_895)
	require.Equal(t, log.out, run.out)
	require.Contains(t, string(log.err), "output may be missing; job 1 failed: detected death of job 1")
}
