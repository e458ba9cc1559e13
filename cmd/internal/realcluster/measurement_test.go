//go:build linux

package realcluster

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/stretchr/testify/require"
)

// figure is what is measured once in each round.
type figure struct {
	setting   string
	instances int // synthetic ones
	measure   string
}

// measurement has the values of the figures, one for each round.
type measurement struct {
	order  []figure
	values map[figure][]float64
}

func (m *measurement) note(f figure, value float64) {
	if m.values == nil {
		m.values = map[figure][]float64{}
	}
	if m.values[f] == nil {
		m.order = append(m.order, f)
	}
	m.values[f] = append(m.values[f], value)
}

func median(numbers []float64) float64 {
	if len(numbers) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[len(sorted)/2]
}

// table has a row for each measure and a column for each setting, with medians.
func (m *measurement) table(instances int) string {
	var measures, names []string
	for _, f := range m.order {
		if f.instances != instances {
			continue
		}
		if !slices.Contains(measures, f.measure) {
			measures = append(measures, f.measure)
		}
		if !slices.Contains(names, f.setting) {
			names = append(names, f.setting)
		}
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\t"+strings.Join(names, "\t"))
	for _, measure := range measures {
		cells := []string{measure}
		for _, name := range names {
			values := m.values[figure{name, instances, measure}]
			cell := ""
			if len(values) > 0 {
				cell = fmt.Sprintf("%.4g", median(values))
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	return out.String()
}

// ratios are those of lockstepd to ganeti-luxid in each round. The load of the machine changes from round to round.
func (m *measurement) ratios(instances int, measure string) (ratios []float64) {
	of := m.values[figure{candidate, instances, measure}]
	to := m.values[figure{reference, instances, measure}]
	for i := range min(len(of), len(to)) {
		ratios = append(ratios, of[i]/to[i])
	}
	return ratios
}

// target is a bound of a ratio to ganeti-luxid.
type target struct {
	text    string
	measure string
	least   float64 // 0: none
	most    float64 // 0: none
}

var targets = []target{
	{text: "without lock at least 10 times the jobs/s", measure: "without lock, jobs/s", least: 10},
	{text: "with lock at least 4 times the jobs/s", measure: "with lock, jobs/s", least: 4},
	{text: "latency of one without lock at most a sixth", measure: "without lock, latency ms", most: 1.0 / 6},
	{text: "latency of one with lock at most a third", measure: "with lock, latency ms", most: 1.0 / 3},
	{text: "20 instances at once no slower", measure: "20 instances, s", most: 1},
	{text: "20 instances at once in at most 0.8 of the processor time", measure: "20 instances, processor ms a job", most: 0.8},
	{text: "20 running jobs in at most 0.4 of the memory", measure: "memory of 20 jobs, MB", most: 0.4},
}

// verdict says whether a target is met.
type verdict struct {
	Target string    `json:"target"`
	Met    bool      `json:"met"`
	Ratio  float64   `json:"ratio"`  // median of the rounds
	Rounds []float64 `json:"rounds"` // the ratio in each round
}

func (v verdict) String() string {
	word := "MISSED"
	if v.Met {
		word = "MET"
	}
	return fmt.Sprintf("%s %s: %.3g (rounds: %.3g)", word, v.Target, v.Ratio, v.Rounds)
}

// judge compares with the targets. A target without figures has no verdict.
func (m *measurement) judge() (verdicts []verdict) {
	for _, t := range targets {
		if ratios := m.ratios(0, t.measure); len(ratios) > 0 {
			r := median(ratios)
			verdicts = append(verdicts, verdict{t.text, r >= t.least && (t.most == 0 || r <= t.most), r, ratios})
		}
	}
	const rate = "without lock, jobs/s"
	empty, grown := m.ratios(0, rate), m.ratios(1000, rate)
	if len(empty) > 0 && len(grown) > 0 {
		share := median(grown) / median(empty)
		verdicts = append(verdicts, verdict{"at 1000 instances at least half of the gain in jobs/s without lock on the empty cluster", share >= 0.5, share, grown})
	}
	return verdicts
}

func (m *measurement) json() []byte {
	type row struct {
		Setting   string    `json:"setting"`
		Instances int       `json:"instances"`
		Measure   string    `json:"measure"`
		Median    float64   `json:"median"`
		Rounds    []float64 `json:"rounds"`
	}
	var document struct {
		Figures []row     `json:"figures"`
		Targets []verdict `json:"targets"`
	}
	for _, f := range m.order {
		document.Figures = append(document.Figures, row{f.setting, f.instances, f.measure, median(m.values[f]), m.values[f]})
	}
	document.Targets = m.judge()
	text, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		panic(err) // it has only names and numbers
	}
	return append(text, '\n')
}

// A target is judged by the median of the ratios of the rounds, not by the ratio of medians.
func TestTargets(t *testing.T) {
	var m measurement
	const rate, latency = "without lock, jobs/s", "with lock, latency ms"
	for i, load := range []float64{1, 2, 4} { // rates fall with the load
		m.note(figure{reference, 0, rate}, 8/load)
		m.note(figure{candidate, 0, rate}, 8*[]float64{9, 11, 12}[i]/load)
		m.note(figure{reference, 1000, rate}, 1/load)
		m.note(figure{candidate, 1000, rate}, 5/load)
		m.note(figure{reference, 0, latency}, 300*load)
		m.note(figure{candidate, 0, latency}, 120*load)
	}
	var lines []string
	for _, v := range m.judge() {
		lines = append(lines, v.String())
	}
	require.Equal(t, []string{
		"MET without lock at least 10 times the jobs/s: 11 (rounds: [9 11 12])",
		"MISSED latency of one with lock at most a third: 0.4 (rounds: [0.4 0.4 0.4])",
		"MISSED at 1000 instances at least half of the gain in jobs/s without lock on the empty cluster: 0.455 (rounds: [5 5 5])",
	}, lines)
	require.Equal(t, "                       ganeti-luxid  lockstepd\nwithout lock, jobs/s   4             44\nwith lock, latency ms  600           240\n", m.table(0))
	require.Contains(t, string(m.json()), `"ratio": 11,`)
}
