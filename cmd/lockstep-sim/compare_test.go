package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"lockstep/sim/study"
)

func compared(t *testing.T, args ...string) string {
	var out bytes.Buffer
	command := newCompareCommand()
	command.SetArgs(append([]string{"--jobs", "60", "--slots", "4", "--nodes", "10"}, args...))
	command.SetOut(&out)
	command.SetErr(&out)
	require.NoError(t, command.Execute())
	return out.String()
}

func TestCompareReports(t *testing.T) {
	text := compared(t, "--seeds", "1..2", "--set", "predictive_ticks=100")
	for _, words := range []string{"60 jobs, 4 slots, 10 nodes, load 0.1, predictive_ticks=100, means of the seeds 1..2",
		"makespan", "jobs per hour", "mean wait", "longest wait", "waiting for locks", "better in", " of 2\n",
		"No starvation: of 120 choices"} {
		require.Contains(t, text, words)
	}
	require.Equal(t, text, compared(t, "--seeds", "1..2", "--set", "predictive_ticks=100"))
}

func TestCompareReportsEstimates(t *testing.T) {
	text := compared(t, "--mix", "disks", "--load", "0.3", "--without", "plain,weights", "--estimates")
	require.Contains(t, text, "Estimates of the start in the run expected, for ")
	require.Contains(t, text, "Estimates of the start in the run informed, for ")
	named := compared(t, "--mix", "disks", "--load", "0.3", "--without", "plain,weights,informed", "--estimates", "--kinds-by", "name")
	require.Contains(t, named, "Estimates of the start in the run expected, for ")
	require.Contains(t, text, "inside their range")
}

func TestCompareAsJSON(t *testing.T) {
	var answer struct {
		Mix   string
		Seeds []study.Comparison
	}
	require.NoError(t, json.Unmarshal([]byte(compared(t, "--mix", "disks", "--seed", "5", "--json")), &answer))
	require.Equal(t, "disks", answer.Mix)
	require.Len(t, answer.Seeds, 1)
	require.EqualValues(t, 5, answer.Seeds[0].Seed)
	require.Equal(t, 60, answer.Seeds[0].Plain.Jobs)
	require.Positive(t, answer.Seeds[0].Expected.SlotSeconds)
}

func TestCompareWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"--mix", "nosuch"}, {"--jobs", "0"}, {"--nodes", "2"}, {"--seeds", "2..1"},
		{"--set", "predictive=false"}, {"--set", "predictive_ticks"}, {"--set", "nosuch=1"}, {"--seed", "1", "--seeds", "1..2"}} {
		command := newCompareCommand()
		command.SetArgs(args)
		command.SilenceErrors, command.SilenceUsage = true, true
		require.Error(t, command.Execute(), args)
	}
}
