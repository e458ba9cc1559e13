package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func reported(args ...string) (string, error) {
	var out bytes.Buffer
	command := newReportCommand()
	command.SetArgs(append([]string{"--jobs", "40", "--slots", "4", "--nodes", "10"}, args...))
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetOut(&out)
	command.SetErr(&out)
	err := command.Execute()
	return out.String(), err
}

func TestReportWritesAPage(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.html")
	text, err := reported("--out", file, "--mix", "disks", "--set", "predictive_ticks=100")
	require.NoError(t, err)
	require.Regexp(t, `^.*day\.html written: \d+\.\d MB`, text)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, words := range []string{"disks: disks are replaced", "mean wait", "of it waiting for locks",
		"lockstep-sim report --mix disks --seed 1 --jobs 40 --slots 4 --nodes 10 --load 0.1 --set predictive_ticks=100"} {
		require.Contains(t, string(page), words)
	}

	text, err = reported("--out", file, "--mix", "disks", "--set", "predictive_ticks=100")
	require.NoError(t, err)
	require.Contains(t, text, "day.html replaced")
	again, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, page, again)
}

func TestReportAsJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "day.html")
	text, err := reported("--out", file, "--json")
	require.NoError(t, err)
	var answer struct {
		File     string
		Bytes    int
		Replaced bool
		Seeds    []struct{ Expected struct{ Jobs int } }
	}
	require.NoError(t, json.Unmarshal([]byte(text), &answer))
	require.Equal(t, file, answer.File)
	require.False(t, answer.Replaced)
	require.Equal(t, 40, answer.Seeds[0].Expected.Jobs)
	page, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Len(t, page, answer.Bytes)
}

func TestReportWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"--mix", "nosuch"}, {"--jobs", "0"}, {"--seeds", "1..2"}, {"--set", "predictive=false"},
		{"--out", t.TempDir()}, {"--out", filepath.Join(t.TempDir(), "nosuch", "day.html")}} {
		_, err := reported(args...)
		require.Error(t, err, args)
	}
}
