package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunsOfSeveralSeeds(t *testing.T) {
	var out bytes.Buffer
	o := runOptions{seeds: "1..3", steps: 1000, faults: "all"}
	require.NoError(t, o.run(&out, &out))
	require.Regexp(t, `^3 runs, \d+ steps in .*: good\n$`, out.String())
}

func TestRunsOfACluster(t *testing.T) {
	var out bytes.Buffer
	o := runOptions{seeds: "1..3", steps: 1000, faults: "none", nodes: 3}
	require.NoError(t, o.run(&out, &out))
	require.Regexp(t, `^3 runs, \d+ steps in .*: good\n$`, out.String())
}

func TestTheSameSeedPrintsTheSameTrace(t *testing.T) {
	traces := [2]bytes.Buffer{}
	for i := range traces {
		command := newRunCommand()
		command.SetArgs([]string{"--seed", "7", "--trace"})
		command.SetOut(&traces[i])
		require.NoError(t, command.Execute())
	}
	lines := func(b []byte) []byte { return b[:bytes.LastIndex(b[:len(b)-1], []byte("\n"))] } // the last one has the time that it took
	require.Greater(t, bytes.Count(traces[0].Bytes(), []byte("\n")), 100)
	require.Equal(t, string(lines(traces[0].Bytes())), string(lines(traces[1].Bytes())))
}

func TestWrongUsage(t *testing.T) {
	for _, o := range []runOptions{
		{seeds: "3..1", faults: "all"}, {seeds: "3", faults: "all"}, {seeds: "a..b", faults: "all"}, {faults: "fire"}, {faults: "all", nodes: 10},
	} {
		require.Error(t, o.run(nil, nil))
	}
}
