package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"lockstep/sim"
)

func TestRunsOfSeveralSeeds(t *testing.T) {
	var out bytes.Buffer
	o := runOptions{seeds: "1..3", repro: sim.Repro{Nodes: 1, Steps: 1000, Faults: "all"}}
	require.NoError(t, o.run(&out, &out))
	require.Regexp(t, `^3 runs, \d+ steps, \d+ deliveries in .*: good\n$`, out.String())
}

func TestRunsOfACluster(t *testing.T) {
	var out bytes.Buffer
	o := runOptions{seeds: "1..3", repro: sim.Repro{Nodes: 3, Steps: 1000, Faults: "none"}}
	require.NoError(t, o.run(&out, &out))
	require.Regexp(t, `^3 runs, \d+ steps, \d+ deliveries in .*: good\n$`, out.String())
}

func TestTheSameSeedPrintsTheSameTrace(t *testing.T) {
	traces := [2]bytes.Buffer{}
	for i := range traces {
		command := newRunCommand()
		command.SetArgs([]string{"--seed", "7", "--trace"})
		command.SetOut(&traces[i])
		require.NoError(t, command.Execute())
	}
	lines := func(b []byte) []byte { return b[:bytes.LastIndex(b[:len(b)-1], []byte("\n"))] } // the last line has the duration
	require.Greater(t, bytes.Count(traces[0].Bytes(), []byte("\n")), 100)
	require.Equal(t, string(lines(traces[0].Bytes())), string(lines(traces[1].Bytes())))
}

func TestWrongUsage(t *testing.T) {
	for _, args := range [][]string{{"--seeds", "3..1"}, {"--seeds", "3"}, {"--seeds", "a..b"}, {"--faults", "fire"}, {"--nodes", "10"}, {"--nodes", "0"},
		{"--plant", "ivy"}, {"--plant", "no-fence"}, {"--faults", "pause,wipe"}} {
		_, err := done(newRunCommand(), args...)
		require.Error(t, err, args)
		require.NotErrorIs(t, err, errBroken)
	}
}

func done(command *cobra.Command, args ...string) (string, error) {
	var out bytes.Buffer
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	command.SilenceErrors, command.SilenceUsage = true, true
	err := command.Execute()
	return out.String(), err
}

// broken runs seeds until one fails, soon, and returns its trace.
func broken(t *testing.T, dir string) (trace, text string) {
	text, err := done(newRunCommand(), "--seeds", "17..200", "--plant", "unsynced-ends", "--keep", dir)
	require.ErrorIs(t, err, errBroken)
	traces, err := filepath.Glob(filepath.Join(dir, "seed-*.trace"))
	require.NoError(t, err)
	require.Len(t, traces, 1)
	return traces[0], text
}

// A failed run writes a trace, which can be replayed and minimized.
func TestARunThatFails(t *testing.T) {
	dir := t.TempDir()
	trace, text := broken(t, dir)
	require.Regexp(t, `\nseed \d+: `, text)
	require.Contains(t, text, "\nsmaller: lockstep-sim minimize "+trace+"\n")

	text, err := done(newReplayCommand(), trace)
	require.ErrorIs(t, err, errBroken)
	require.Regexp(t, `^the same \d+ lines; seed \d+: `, text)

	small := filepath.Join(dir, "small.trace")
	text, err = done(newMinimizeCommand(), trace, "--out", small, "--runs", "20")
	require.NoError(t, err)
	require.Regexp(t, `(?s)^after \d+ runs, \d+ steps:\n  faults:   .*\n  requests: client \d.*trace: `, text)
	text, err = done(newReplayCommand(), small, "--show")
	require.ErrorIs(t, err, errBroken)
	require.Contains(t, text, " takes connections\n")
}

func TestRunAsJSON(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args []string
		err  error
	}{{[]string{"--seeds", "1..3", "--steps", "500"}, nil}, {[]string{"--seeds", "1..200", "--plant", "unsynced-ends"}, errBroken}} {
		text, err := done(newRunCommand(), append(c.args, "--json", "--keep", dir)...)
		require.ErrorIs(t, err, c.err)
		var sum sweep
		require.NoError(t, json.Unmarshal([]byte(text), &sum))
		require.Positive(t, sum.Deliveries)
		if c.err != nil {
			require.Equal(t, sum.Runs, sum.Failed.Seed)
			require.NotEmpty(t, sum.Failed.Checker)
			require.FileExists(t, sum.Failed.Trace)
		}
	}
}

func TestReplayOfWhatWasAnotherRun(t *testing.T) {
	trace, _ := broken(t, t.TempDir())
	content, err := os.ReadFile(trace)
	require.NoError(t, err)
	seed := regexp.MustCompile(`"seed":\d+`)
	for name, changed := range map[string]string{
		"another line": strings.Replace(string(content), " takes connections\n", " takes a nap\n", 1),
		"a line less":  string(content[:len(content)-5]),
		"a line more":  string(content) + "   9.999 the end\n",
		"other faults": seed.ReplaceAllString(string(content), `"seed":999`),
	} {
		var out bytes.Buffer
		r := &comparedRun{out: &out}
		require.NoError(t, r.replay(strings.NewReader(changed)), name)
		require.ErrorIs(t, r.report(false), errDiffers, name)
		require.Contains(t, out.String(), "differs: - is the trace", name)
	}
	require.ErrorContains(t, new(comparedRun).replay(strings.NewReader("hello")), "not a trace")
}

func TestReplayAndMinimizeAsJSON(t *testing.T) {
	dir := t.TempDir()
	trace, _ := broken(t, dir)
	text, err := done(newReplayCommand(), trace, "--json")
	require.ErrorIs(t, err, errBroken)
	var again comparedRun
	require.NoError(t, json.Unmarshal([]byte(text), &again))
	require.True(t, again.Same)
	require.Greater(t, again.Lines, 100)
	require.NotEmpty(t, again.Failed.Checker)

	content, err := os.ReadFile(trace)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(trace, append(content, "   9.999 the end\n"...), 0o600))
	text, err = done(newReplayCommand(), trace, "--json")
	require.ErrorIs(t, err, errDiffers)
	var differs comparedRun
	require.NoError(t, json.Unmarshal([]byte(text), &differs))
	require.Equal(t, comparedRun{Lines: again.Lines, Failed: again.Failed, Trace: "   9.999 the end", Run: endOfTrace}, differs)

	small := filepath.Join(dir, "small.trace")
	text, err = done(newMinimizeCommand(), trace, "--out", small, "--runs", "20", "--json")
	require.NoError(t, err)
	var is minimized
	require.NoError(t, json.Unmarshal([]byte(text), &is))
	require.Equal(t, again.Failed.Checker, is.Failed.Checker)
	require.Equal(t, small, is.Failed.Trace)
	require.Positive(t, is.Steps)
	require.NotEmpty(t, is.Requests)
}

func TestMinimizeWhatIsGood(t *testing.T) {
	_, err := done(newMinimizeCommand(), "--seed", "1", "--faults", "none", "--steps", "100")
	require.ErrorContains(t, err, "seed 1: the run is good")
}

func TestMinimizeWrongUsage(t *testing.T) {
	trace, _ := broken(t, t.TempDir())
	for _, args := range [][]string{{trace, "--seed", "3"}, {trace, "--faults", "none"}, {"--runs", "1"}, {"--nodes", "0"}, {"nosuch.trace"}} {
		_, err := done(newMinimizeCommand(), args...)
		require.Error(t, err, args)
		require.NotErrorIs(t, err, sim.ErrGood)
	}
}
