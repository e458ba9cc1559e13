package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

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

// The same work has the same outcome in every run.
func TestLoadAsJSON(t *testing.T) {
	var outcomes []any
	for range 2 {
		var answer struct {
			Nodes int
			Run   struct{ Outcome map[string]any }
		}
		text := loadedBy(t, "--jobs", "200", "--nodes", "8", "--only", "run", "--json")
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		require.Equal(t, 8, answer.Nodes)
		require.EqualValues(t, 200, answer.Run.Outcome["jobs"])
		require.Contains(t, answer.Run.Outcome, "mean_wait")
		outcomes = append(outcomes, answer.Run.Outcome)
	}
	require.Equal(t, outcomes[0], outcomes[1])
}

func TestLoadWrongUsage(t *testing.T) {
	for wants, args := range map[string][]string{
		"unknown mix":                {"--mix", "nosuch"},
		"want 1 to 1000000":          {"--jobs", "-1"},
		"10001 slots":                {"--slots", "10001"},
		"2 nodes":                    {"--nodes", "2"},
		"--only nosuch: want run or": {"--only", "nosuch"},
		"--decisions 0":              {"--decisions", "0"},
		"no setting":                 {"--set", "nosuch=1"},
		"0 jobs":                     {"--jobs", "0"},
	} {
		command := newLoadCommand()
		command.SetArgs(args)
		command.SilenceErrors, command.SilenceUsage = true, true
		require.ErrorContains(t, command.Execute(), wants, args)
	}
}
