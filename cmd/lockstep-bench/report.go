package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"lockstep/cmd/internal/term"
)

// renderTable renders the rows as text, with limits, ratios and targets.
func renderTable(rows []row) string {
	writer := term.NewTable()
	writer.AppendHeader(table.Row{"Measurement", "lockstep", "", "this machine's limit", "", "ratio", "target", "met?"})
	for _, r := range rows {
		cells := table.Row{r.text, r.unit.format(r.value.Median), r.spread(r.value), "", "", "", r.targetsText(), r.targetResults()}
		if r.limit != nil {
			cells[3], cells[4], cells[5] = r.unit.format(r.limit.Median), r.spread(*r.limit), threeDigits(r.ratios.Median)
		}
		writer.AppendRow(cells)
	}
	return writer.Render()
}

func (r row) spread(f summary) string {
	return fmt.Sprintf("(%s..%s)", r.unit.format(f.Min), r.unit.format(f.Max))
}

// targetsText is a text for the targets of a row; "" if it has none.
func (r row) targetsText() string {
	var words []string
	for _, t := range r.targets {
		sign, bound := "≤ ", r.unit.format(t.bound)
		if r.unit.largerIsBetter() {
			sign = "≥ "
		}
		if t.ofRatio {
			bound = "ratio " + threeDigits(t.bound)
		}
		words = append(words, sign+bound)
	}
	return strings.Join(words, ", ")
}

// targetResults is yes or no for each target of a row.
func (r row) targetResults() string {
	var words []string
	for _, t := range r.targets {
		word := "no"
		if r.met(t) {
			word = "yes"
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// writeBenchFormat writes input for benchstat: a line per round of each measurement and limit.
func writeBenchFormat(w io.Writer, m machine, s sizes, samples map[string][]sample) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: lockstep/cmd/lockstep-bench\ncpu: %s\nfs: %s\n",
		runtime.GOOS, runtime.GOARCH, m.CPU, m.FileSystem)
	if s.quick {
		fmt.Fprintln(w, "sizes: quick") // benchstat groups by this line
	}
	for _, name := range slices.Sorted(maps.Keys(samples)) {
		for _, one := range samples[name] {
			fmt.Fprintf(w, "Benchmark%s\t%d\t%g %s\n", name, one.n, one.value, unitOf(name))
		}
	}
}

// jsonRow is a row in JSON output.
type jsonRow struct {
	Name    string       `json:"name"`
	Text    string       `json:"text"`
	Unit    unit         `json:"unit"`
	Value   summary      `json:"value"`
	Limit   *summary     `json:"limit"`
	Ratio   *summary     `json:"ratio"`
	Targets []jsonTarget `json:"targets"`
}

type jsonTarget struct {
	OfRatio bool    `json:"of_ratio"`
	Bound   float64 `json:"bound"`
	Met     bool    `json:"met"`
}

func writeJSON(w io.Writer, m machine, rows []row) error {
	all := make([]jsonRow, len(rows))
	for i, r := range rows {
		all[i] = jsonRow{Name: r.name, Text: r.text, Unit: r.unit, Value: r.value, Targets: []jsonTarget{}}
		if r.limit != nil {
			all[i].Limit, all[i].Ratio = r.limit, &r.ratios
		}
		for _, t := range r.targets {
			all[i].Targets = append(all[i].Targets, jsonTarget{OfRatio: t.ofRatio, Bound: t.bound, Met: r.met(t)})
		}
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{"machine": m, "measurements": all})
}
