package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// samplesOf makes samples of one operation each.
func samplesOf(values ...float64) []sample {
	all := make([]sample, len(values))
	for i, value := range values {
		all[i] = sample{value, 1}
	}
	return all
}

func TestTheTable(t *testing.T) {
	rows := makeRows(fullSizes, map[string][]sample{
		"Job":                 samplesOf(5e6, 4e6, 30e6),
		"BareJob":             samplesOf(4e6, 4e6, 10e6),
		"Jobs/slots=20":       samplesOf(200, 210),
		"BareLoop/workers=20": samplesOf(250, 300),
		"IdleWakeups":         samplesOf(0.5),
	})
	lines := strings.Split(renderTable(rows), "\n")
	require.Len(t, lines, 1+3+2) // a header, and two more rows for the end-to-end jobs, with other loops
	require.Regexp(t, `^one no-op.* 5\.00 ms +\(4\.00 ms\.\.30\.0 ms\) +4\.00 ms +\(4\.00 ms\.\.10\.0 ms\) +1\.25 +≤ 10\.0 ms +yes$`, lines[1])
	// The ratio is the median of the rounds' ratios 0.8 and 0.7, not the ratio of the medians.
	require.Regexp(t, `20 workers +205/s .* 0\.75 +≥ 300/s, ≥ ratio 0\.65 +no, yes$`, lines[2])
	require.Regexp(t, `^the same; bare loop, 1 worker +205/s +\(200/s\.\.210/s\)$`, lines[3])
	require.Regexp(t, `0\.50/s .* ≤ 1\.00/s +yes$`, lines[5])
}

// Targets do not apply to small rounds.
func TestQuickFiguresHaveNoTargets(t *testing.T) {
	table := renderTable(makeRows(quickSizes, map[string][]sample{"Chain": samplesOf(1e6)}))
	require.Contains(t, table, "chain of 10 no-ops")
	require.NotContains(t, table, "yes")
}

func TestTheFormatOfBenchmarks(t *testing.T) {
	var out strings.Builder
	writeBenchFormat(&out, machine{CPU: "fast", FileSystem: "ext4"}, fullSizes, map[string][]sample{
		"Submit/clients=1": {{1250000, 200}, {1300000.5, 200}}, "BareSubmitMany": {{3000, 1000}}})
	require.Contains(t, out.String(), "pkg: lockstep/cmd/lockstep-bench\ncpu: fast\nfs: ext4\n")
	require.Contains(t, out.String(), "BenchmarkBareSubmitMany\t1000\t3000 jobs/s\n"+
		"BenchmarkSubmit/clients=1\t200\t1.25e+06 ns/op\nBenchmarkSubmit/clients=1\t200\t1.3000005e+06 ns/op\n")
}

func TestJSONHasEverySample(t *testing.T) {
	var out strings.Builder
	require.NoError(t, writeJSON(&out, machine{Cores: 2}, makeRows(fullSizes, map[string][]sample{"Wake": samplesOf(3, 1, 2), "BareWake": samplesOf(1, 1, 1)})))
	var got struct {
		Machine      machine
		Measurements []struct {
			Name, Unit          string
			Value, Limit, Ratio summary
		}
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
	require.Equal(t, 2, got.Machine.Cores)
	require.Len(t, got.Measurements, 1)
	require.Equal(t, "Wake", got.Measurements[0].Name)
	require.Equal(t, summary{Median: 2, Min: 1, Max: 3, Samples: []float64{3, 1, 2}}, got.Measurements[0].Value)
	require.Equal(t, 2.0, got.Measurements[0].Ratio.Median)
}

// --only matches the measurements that scenarios declare.
func TestScenariosMeasureWhatTheTableHas(t *testing.T) {
	rows, given := map[string]bool{}, map[string]bool{}
	for _, m := range measures(fullSizes) {
		rows[m.name] = true
	}
	for _, s := range scenarios {
		for _, name := range s.measurements {
			given[name] = true
		}
	}
	require.Equal(t, rows, given)
}

// The scenarios of clusters need minutes and many processes, so they are measured on request and for the guard.
func TestClustersAreMeasuredOnRequest(t *testing.T) {
	names := func(o options) (found []string) {
		for _, s := range chooseScenarios(regexp.MustCompile("^(jobs|cluster of 3)$"), o.kinds()) {
			found = append(found, s.name)
		}
		return found
	}
	require.Equal(t, []string{"jobs"}, names(options{}))
	require.Equal(t, []string{"cluster of 3"}, names(options{cluster: true}))
	require.Equal(t, []string{"jobs", "cluster of 3"}, names(options{guard: true}))
}

func TestMedian(t *testing.T) {
	require.Equal(t, 2.0, median([]float64{9, 1, 2}))
	require.Equal(t, 2.5, median([]float64{9, 1, 2, 3}))
}
