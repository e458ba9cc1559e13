package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

const smallTrace = "../../sim/study/throughput/testdata/small.swf"

func loadedBy(t *testing.T, args ...string) string {
	var out bytes.Buffer
	command := newLoadCommand()
	command.SetArgs(append([]string{"--decisions", "20"}, args...))
	command.SetOut(&out)
	command.SetErr(&out)
	require.NoError(t, command.Execute())
	return out.String()
}

func TestLoadReports(t *testing.T) {
	text := loadedBy(t, "--jobs", "1500", "--nodes", "50", "--set", "predictive_ticks=100", "--plain")
	for _, words := range []string{"1500 jobs, 20 slots, 50 nodes, load 0.1, plain order, predictive_ticks=100, seed 1", "makespan",
		"longest wait", "most jobs pending", "when jobs come", "when an opcode ends", "\n1500 ", "x ", "Means of 20 ends"} {
		require.Contains(t, text, words)
	}
	text = loadedBy(t, "--jobs", "200", "--only", "growth")
	require.NotContains(t, text, "makespan")
	text = loadedBy(t, "--jobs", "200", "--only", "run")
	require.Contains(t, text, "Too few jobs were pending")
	require.NotContains(t, text, "enqueue")
}

func TestLoadOfATrace(t *testing.T) {
	text := loadedBy(t, "--swf", smallTrace)
	for _, words := range []string{"6 jobs, 4 slots, 4 nodes, predictive order", "1 had failed, 1 were canceled while they ran, 1 depend on another",
		"1 that never ran, 2 parts of jobs, 1 with too little data; dependencies omitted: 1"} {
		require.Contains(t, text, words)
	}
}

// A compressed trace has the outcome of the plain trace, in every run.
func TestLoadAsJSON(t *testing.T) {
	plain, err := os.ReadFile(smallTrace)
	require.NoError(t, err)
	var zipped bytes.Buffer
	writer := gzip.NewWriter(&zipped)
	_, err = writer.Write(plain)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	path := filepath.Join(t.TempDir(), "small.swf.gz")
	require.NoError(t, os.WriteFile(path, zipped.Bytes(), 0o600))
	var outcomes []any
	for _, file := range []string{smallTrace, path} {
		var answer struct {
			Nodes int
			Run   struct{ Outcome map[string]any }
		}
		require.NoError(t, json.Unmarshal([]byte(loadedBy(t, "--swf", file, "--nodes", "8", "--only", "run", "--json")), &answer))
		require.Equal(t, 8, answer.Nodes)
		require.EqualValues(t, 6, answer.Run.Outcome["jobs"])
		require.Contains(t, answer.Run.Outcome, "mean_wait")
		outcomes = append(outcomes, answer.Run.Outcome)
	}
	require.Equal(t, outcomes[0], outcomes[1])
}

func TestLoadWrongUsage(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.swf")
	require.NoError(t, os.WriteFile(wrong, []byte("; MaxProcs: 4\n1 2\n"), 0o600))
	for wants, args := range map[string][]string{
		"unknown mix":                       {"--mix", "nosuch"},
		"want 1 to 1000000":                 {"--jobs", "-1"},
		"10001 slots":                       {"--slots", "10001"},
		"2 nodes":                           {"--nodes", "2"},
		"--only nosuch: want run or":        {"--only", "nosuch"},
		"--decisions 0":                     {"--decisions", "0"},
		"no setting":                        {"--set", "nosuch=1"},
		"mix swf":                           {"--swf", wrong, "--mix", "quiet"},
		"load swf":                          {"--swf", wrong, "--load", "1"},
		"wrong.swf: line 2: 2 fields":       {"--swf", wrong},
		"no such file":                      {"--swf", wrong + "x"},
		"slots and --nodes: want 1 or more": {"--swf", wrong, "--slots", "-1"},
	} {
		command := newLoadCommand()
		command.SetArgs(args)
		command.SilenceErrors, command.SilenceUsage = true, true
		require.ErrorContains(t, command.Execute(), wants, args)
	}
}
