package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"lockstep/core/job"
	"lockstep/core/jobproc"
	"lockstep/core/outflow"
)

// withGroup is the execution of a command whose group is below a control group.
func withGroup(input json.RawMessage, cgroup string) *execution {
	return &execution{id: 7, livelock: "none", input: input, lease: &lease{cgroup: cgroup}, emit: func([]jobproc.LogEntry) {},
		relay: newRelay("", 7, outflow.NewSource(outflow.Standard(time.Hour), outflow.Position{}, false), nil, nil)}
}

// A command without limits runs also where its group cannot be made, or the kernel does not take it.
func TestACommandRunsWithoutItsGroup(t *testing.T) {
	unusable := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(unusable, "none.0"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(unusable, "none.0", "cgroup.procs"), nil, 0o600))
	for name, cgroup := range map[string]string{
		"not asked for": "", "no parent": filepath.Join(t.TempDir(), "none"), "no group": t.TempDir(), "not of the kernel": unusable,
	} {
		input := json.RawMessage(`{"argv": ["/bin/true"]}`)
		outcome := withGroup(input, cgroup).runCommand(input)
		require.False(t, outcome.Failed, "%s: %s", name, outcome.Result)
		require.Equal(t, job.MemoryOfProcess, job.UsageIn(outcome.Result).MemoryOf)
	}
}

// A command with a limit does not run where the limit cannot be enforced, also if its submission was on another node. A dry run says the same.
func TestALimitIsNeverIgnored(t *testing.T) {
	touched := filepath.Join(t.TempDir(), "touched")
	input, err := json.Marshal(map[string]any{"argv": []string{"/bin/touch", touched}, "limits": map[string]any{"tasks": 5}})
	require.NoError(t, err)
	for cgroup, want := range map[string]string{
		"":                                      "this node cannot limit the number of processes: its daemon has no control group for jobs",
		filepath.Join(t.TempDir(), "none/jobs"): "is no control group of version 2 that exists",
	} {
		outcome := withGroup(input, cgroup).runCommand(input)
		require.True(t, outcome.Failed)
		require.Contains(t, string(outcome.Result), want)
		require.NoFileExists(t, touched)
		require.Equal(t, outcome, withGroup(input, cgroup).dryCommand(input))
	}
}
