package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"
)

// stageFor is a stage without a file of scripts, for output that varies.
func stageFor(t *testing.T, input string, options ...string) *stage {
	t.Helper()
	directory := shortTempDir(t)
	t.Chdir(directory)
	d := &datadriven.TestData{Cmd: "lockstep", Input: input}
	for _, option := range options {
		d.CmdArgs = append(d.CmdArgs, datadriven.CmdArg{Key: option})
	}
	return newStage(t, directory, d)
}

// The progress bar draws at any time; it must end with the final state.
func TestSubmitWaitShowsProgressOnATerminal(t *testing.T) {
	s := stageFor(t, `submit --wait -
> LockstepSubmitJobs ...
< [12,13]
> QueryJobs [[12,13],["status"]]
< [["running"],["error"]]
> WaitForJobChange [12,["status"],["running"],2147483647,1]
see 1 of 2 jobs ended, 1 failed, 1 running
< [["success"],[]]
> QueryJobs [[12],["status"]]
< [["success"]]`, "errtty")
	s.streams.In = strings.NewReader(`[[{"OP_ID":"A"}],[{"OP_ID":"B"}]]`)
	seen := s.perform()
	for _, want := range []string{
		"out| 12\nout| 13\n",
		"2 of 2 jobs ended, 1 failed, 0 running",
		"lockstep: 1 of 2 jobs did not succeed: 13 (error); \"lockstep info ID\" says why\nexit 1\n",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("not seen: %q in\n%s", want, seen)
		}
	}
}

func TestAutoarchiveShowsProgressOnATerminal(t *testing.T) {
	s := stageFor(t, `autoarchive all
> AutoArchiveJobs [-1,1]
< [1000,1500]
> AutoArchiveJobs [-1,1]
see 1000 of 2500 jobs archived
< [1000,501]
> AutoArchiveJobs [-1,1]
see 2000 of 2501 jobs archived
< [501,0]`, "errtty")
	seen := s.perform()
	for _, want := range []string{"out| archived 2501 jobs\n", "2501 of 2501 jobs archived", "exit 0\n"} {
		if !strings.Contains(seen, want) {
			t.Errorf("not seen: %q in\n%s", want, seen)
		}
	}
}

func TestStdinIsBounded(t *testing.T) {
	const stdinMax = 1 << 20
	for size, want := range map[int]string{
		stdinMax:     "exit 0",
		stdinMax + 1: "err| lockstep: standard input is larger than 1048576 bytes; let the command read a file instead\nexit 1",
	} {
		s := stageFor(t, "run -d --stdin -- cat\n> SubmitJob ...\n< 1\n> QueryJobs [[1],[\"status\"]]\n< [[\"queued\"]]")
		s.streams.In = strings.NewReader(strings.Repeat("x", size))
		if want == "exit 0" {
			want = "out| 1\nexit 0"
		} else {
			s.script = nil
		}
		if seen := s.perform(); seen != want+"\n" {
			t.Errorf("%d bytes: %s", size, seen)
		}
	}
	s := stageFor(t, "run -d --stdin -- cat")
	s.streams.In = strings.NewReader("\xff")
	if seen := s.perform(); !strings.Contains(seen, "is not UTF-8 text") || !strings.Contains(seen, "exit 1") {
		t.Error(seen)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

// A table that could not be printed is a failure.
func TestOutputThatCannotBeWritten(t *testing.T) {
	s := stageFor(t, "list\n> LockstepListJobs ...\n< {\"jobs\":[{\"id\":1,\"status\":\"success\",\"summary\":[\"A\"]}]}")
	s.streams.Out = fullDisk{}
	want := "err| lockstep: write the output: no space left on device\nexit 1\n"
	if seen := s.perform(); seen != want {
		t.Errorf("%s", seen)
	}
}

// A working directory that is not UTF-8 cannot be in a job file.
func TestAWorkingDirectoryThatIsNotUTF8IsRefused(t *testing.T) {
	s := stageFor(t, "run -- true", "nodaemon")
	directory := filepath.Join(t.TempDir(), "caf\xe9")
	require.NoError(t, os.Mkdir(directory, 0o700))
	t.Chdir(directory)
	seen := s.perform()
	require.Contains(t, seen, `caf\xe9`)
	require.Contains(t, seen, "the working directory is not UTF-8")
	require.Contains(t, seen, "exit 2")
}
