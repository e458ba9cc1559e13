package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/command"
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

	r := runProgram(t, socket, "run", "--", "sh", "-c", fmt.Sprintf("cat %s; cat %s >&2; exit 3", out, err))
	require.True(t, bytes.Equal(hostileOutput(1), r.out), "standard output is not what the command wrote")
	want := append(hostileOutput(2), "lockstep: job 1 failed: command exited with status 3\n"...)
	require.True(t, bytes.Equal(want, r.err), "standard error is not what the command wrote")
	require.Equal(t, 3, r.code)

	r = runProgram(t, socket, "log", "1")
	require.True(t, bytes.Equal(hostileOutput(1), r.out))
	require.True(t, bytes.Equal(hostileOutput(2), r.err))
	require.Zero(t, r.code)

	r = runProgram(t, socket, "run", "--", "printf", "abc")
	require.Equal(t, ran{out: []byte("abc"), err: []byte{}}, r)
}

// All output of a command is complete when it ends, at any speed.
func TestTheEndOfTheOutputIsThere(t *testing.T) {
	socket := realDaemon(t)
	r := runProgram(t, socket, "run", "--", "sh", "-c", "seq 1 2000; seq 1 2000 >&2")
	require.Zero(t, r.code)
	require.Equal(t, 2000, bytes.Count(r.out, []byte("\n")))
	require.Equal(t, r.out, r.err)
}

var (
	gapSaid   = regexp.MustCompile(`(?m)^lockstep: job \d+: missing here: (\d+) lines \((\d+) bytes\) of standard output, after line (\d+)$`)
	totalSaid = regexp.MustCompile(`(?m)^lockstep: job \d+: missing in all: (\d+) of (\d+) lines of standard output \((\d+) of (\d+) bytes\)\. `)
)

// A command writes more than the log keeps, faster than a follower reads: each gap is reported with
// its exact place and size on standard error only, and the exit code is not the command's.
func TestMissingOutputIsSaidExactly(t *testing.T) {
	const lines = 1_000_000
	socket := realDaemon(t)
	run := runProgram(t, socket, "run", "--", "seq", "1", strconv.Itoa(lines))
	log := runProgram(t, socket, "log", "1")
	require.Equal(t, follow.ExitIncomplete, log.code)
	require.True(t, bytes.HasSuffix(log.err, []byte("lockstep: job 1: output is missing; job 1 succeeded: command exited with status 0\n")), "%s", log.err)
	watch := runProgram(t, socket, "watch", "1")
	require.Equal(t, follow.ExitIncomplete, watch.code)
	for _, subcommand := range []string{"log", "watch"} {
		require.Zero(t, runProgram(t, socket, subcommand, "--partial", "1").code)
	}
	partial := runProgram(t, socket, "log", "--partial", "1")
	require.Equal(t, log.out, partial.out)
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

// A command of which one byte is missing does not exit as if all were there, whatever its own status.
func TestLostOutputHasAnExitCode(t *testing.T) {
	socket := realDaemon(t)
	for status, sentence := range map[int]string{
		0: "job %d succeeded: command exited with status 0",
		3: "job %d failed: command exited with status 3",
	} {
		line := fmt.Sprintf("head -c 4000000 /dev/zero; exit %d", status)
		r := runProgram(t, socket, "run", "--json", "--detach", "--", "sh", "-c", line)
		require.Zero(t, r.code)
		id := string(regexp.MustCompile(`"job":(\d+)`).FindSubmatch(r.out)[1])
		runProgram(t, socket, "wait", id)
		log := runProgram(t, socket, "log", id)
		require.Less(t, len(log.out), 4_000_000)
		require.Equal(t, follow.ExitIncomplete, log.code)
		require.Contains(t, string(log.err), "output is missing; "+fmt.Sprintf(sentence, number(t, []byte(id))))
		require.Equal(t, follow.ExitIncomplete, runProgram(t, socket, "watch", id).code)
		require.Equal(t, follow.ExitIncomplete, runProgram(t, socket, "watch", "--json", id).code)

		r = runProgram(t, socket, "run", "--", "sh", "-c", line)
		if len(r.out) < 4_000_000 {
			require.Equal(t, follow.ExitIncomplete, r.code)
		} else {
			require.Equal(t, status, r.code)
		}
		r = runProgram(t, socket, "run", "--partial", "--", "sh", "-c", line)
		require.Equal(t, status, r.code)
	}
}

// What a process writes that the command has left behind is lost after the end of the command: that it may be
// is said, and has the exit code of missing output.
func TestAProcessThatHasTheOutputOpenAfterTheEndIsReported(t *testing.T) {
	socket := realDaemon(t)
	t.Chdir(t.TempDir())
	const line = "setsid sh -c ': > began; exec sleep 300' & echo $!; while [ ! -e began ]; do sleep 0.01; done; exit 3"
	r := runProgram(t, socket, "run", "--", "sh", "-c", line)
	left, err := strconv.Atoi(string(bytes.TrimSpace(r.out)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	require.Equal(t, follow.ExitIncomplete, r.code)
	require.Contains(t, string(r.err), "a process outside the command's group had standard output and standard error open")
	require.Contains(t, string(r.err), "output may be missing; job 1 failed: command exited with status 3")
	require.Zero(t, runProgram(t, socket, "log", "--partial", "1").code)
	require.Equal(t, follow.ExitIncomplete, runProgram(t, socket, "log", "1").code)

	r = runProgram(t, socket, "run", "--", "sh", "-c", "rm began; setsid sh -c ': > began; exec sleep 300' > /dev/null 2>&1 & echo $!; while [ ! -e began ]; do sleep 0.01; done")
	left, err = strconv.Atoi(string(bytes.TrimSpace(r.out)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(left, syscall.SIGKILL))
	require.Zero(t, r.code, "%s", r.err)
}

// A job process that is killed has perhaps read output that is in no log: that some may be missing is said, and has the exit code of
// missing output.
func TestTheDeathOfAJobProcessMayLoseOutput(t *testing.T) {
	socket := realDaemon(t)
	// The process may die before its file says that the job runs.
	const said = `the job process died here; output that it had not saved is missing
lockstep: job 1: output may be missing; job 1 failed: detected death of job 1: ended by SIGKILL(; it may have begun)?
`
	r := runProgram(t, socket, "run", "--", "sh", "-c", "echo lost; kill -KILL $PPID")
	require.Equal(t, follow.ExitIncomplete, r.code)
	require.Regexp(t, said, string(r.err))
	for _, subcommand := range []string{"log", "watch"} {
		r = runProgram(t, socket, subcommand, "1")
		require.Equal(t, follow.ExitIncomplete, r.code)
		require.Regexp(t, said, string(r.err))
	}
	r = runProgram(t, socket, "run", "--partial", "--", "sh", "-c", "kill -KILL $PPID")
	require.Equal(t, 1, r.code)
	require.Contains(t, string(r.err), "job 2 failed: detected death of job 2")
}

// Output that cannot be written to its file is missing, on either stream, as text and as JSON; the command's own status is said.
func TestOutputThatCannotBeWrittenHasAnExitCode(t *testing.T) {
	socket := realDaemon(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	run := func(redirect func(*exec.Cmd), args ...string) {
		t.Helper()
		cmd := exec.Command(program(t, "lockstep"), args...)
		cmd.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
		var said bytes.Buffer
		cmd.Stderr = &said
		redirect(cmd)
		require.Error(t, cmd.Run())
		require.Equal(t, follow.ExitIncomplete, cmd.ProcessState.ExitCode(), "%q: %s", args, said.String())
		if cmd.Stderr == &said {
			require.Regexp(t, `(?m)^lockstep: job \d+: output could not be written: .*; job \d+ failed: command exited with status 3$`, said.String(), "%q", args)
		}
	}
	out := func(c *exec.Cmd) { c.Stdout = full }
	run(func(c *exec.Cmd) { c.Stderr = full }, "run", "--", "sh", "-c", "echo x >&2; exit 3")
	run(out, "run", "--", "sh", "-c", "echo x; exit 3")
	run(out, "run", "--json", "--", "sh", "-c", "echo x; exit 3")
	for _, subcommand := range []string{"log", "watch"} {
		run(out, subcommand, "2")
		run(out, subcommand, "2", "3")
		run(out, subcommand, "--json", "2")
		run(out, subcommand, "--json", "2", "3")
	}
	run(out, "log", "--follow", "2", "3")
}

// A command writes little, in so many lines that a small log loses some: its process has them, and a watch gets them.
func TestAWatchGetsWhatASmallLogHasLost(t *testing.T) {
	socket := realDaemon(t)
	t.Chdir(t.TempDir())
	require.Zero(t, runProgram(t, socket, "config", "set", "log_limit=64kB").code)
	const lines = 10_000 // of 2 bytes
	for _, pipe := range []string{"written", "seen"} {
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	}
	script := fmt.Sprintf("yes | head -n %d; : > written; : < seen", lines)
	require.Zero(t, runProgram(t, socket, "run", "--detach", "--", "sh", "-c", script).code)
	_, err := os.ReadFile("written")
	require.NoError(t, err)
	watch := exec.Command(program(t, "lockstep"), "log", "--follow", "1")
	watch.Env = append(os.Environ(), "LOCKSTEP_SOCKET="+socket)
	var said bytes.Buffer
	watch.Stderr = &said
	out, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	late := time.AfterFunc(realPatience, func() { _ = watch.Process.Kill() })
	defer late.Stop()
	got := make([]byte, 2*lines)
	n, _ := io.ReadFull(out, got)
	require.NoError(t, os.WriteFile("seen", nil, 0o600))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.NoError(t, watch.Wait(), "%s", said.String())
	require.Equal(t, strings.Repeat("y\n", lines), string(got[:n])+string(rest))
	require.Equal(t, follow.ExitIncomplete, runProgram(t, socket, "log", "1").code, "the log is small")
}

// Each command of a job knows the name of the job.
func TestACommandKnowsTheNameOfItsJob(t *testing.T) {
	socket := realDaemon(t)
	t.Chdir(t.TempDir())
	const file = "name: nightly\nsteps:\n- {run: 'echo $LOCKSTEP_JOB_NAME', shell: true}\n- {run: 'echo $LOCKSTEP_JOB_NAME', shell: true}\n"
	require.NoError(t, os.WriteFile("jobs.yaml", []byte(file), 0o600))
	require.Zero(t, runProgram(t, socket, "submit", "--wait", "jobs.yaml").code)
	require.Equal(t, "nightly\nnightly\n", string(runProgram(t, socket, "log", "nightly").out))
	require.Equal(t, "none\n", string(runProgram(t, socket, "run", "--", "sh", "-c", "echo ${LOCKSTEP_JOB_NAME-none}").out))
}

// bounded is a writer with room for so many bytes.
type bounded struct{ room int }

func (w *bounded) Write(p []byte) (int, error) {
	if w.room -= len(p); w.room < 0 {
		return 0, syscall.ENOSPC
	}
	return len(p), nil
}

// The last line alone cannot be written: it is missing like any output.
func TestALastLineThatCannotBeWrittenHasAnExitCode(t *testing.T) {
	socket := realDaemon(t)
	t.Setenv("LOCKSTEP_SOCKET", socket)
	for range 2 {
		require.Equal(t, 3, runProgram(t, socket, "run", "--", "sh", "-c", "printf x; exit 3").code)
	}
	for _, args := range [][]string{{"watch", "--json", "1"}, {"log", "--follow", "1", "2"}} {
		whole := runProgram(t, socket, args...)
		streams, said := cli.ProcessStreams(), bytes.Buffer{}
		streams.Out, streams.Err = &bounded{room: len(whole.out) - 1}, &said
		require.Equal(t, follow.ExitIncomplete, command.Run(t.Context(), args, streams), "%q", args)
		require.Regexp(t, `job \d+: output could not be written: .*; job \d+ failed: command exited with status 3\n$`, said.String())
	}
}

func number(t *testing.T, text []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(text))
	require.NoError(t, err)
	return n
}
