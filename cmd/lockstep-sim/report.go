package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/core/config"
	"lockstep/sim/study"
	"lockstep/sim/study/report"
)

// reportOptions are the flags of report.
type reportOptions struct {
	workOptions
	file string
	json bool
}

func newReportCommand() *cobra.Command {
	o := reportOptions{}
	c := &cobra.Command{
		Use:   "report",
		Short: "Draw a comparison as a page of HTML",
		Long: `Draw the measurements of compare for one seed as a page of HTML: waiting times,
numbers of jobs, jobs in run slots over time, and the locks that jobs waited for, in
the predictive and in the plain order. The page is a single file without network
access and script. An existing file is replaced.

The mixes:
` + mixList(),
		Example: `  lockstep-sim report --mix operator --jobs 500
  lockstep-sim report --mix evacuation --seed 7 --set predictive_ticks=2880 --out evacuation.html
  lockstep-sim report --json --out day.html | jq .seeds[0].predictive.mean_wait`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	o.flags(c.Flags())
	c.Flags().StringVar(&o.file, "out", "report.html", "the `file` to write")
	c.Flags().BoolVar(&o.json, "json", false, "print all measurements and the name of the page as JSON")
	return c
}

func (o *reportOptions) run(out, stderr io.Writer) error {
	mix, options, err := o.parse()
	if err != nil {
		return err
	}
	replaced, err := checkOutput(o.file)
	if err != nil {
		return err
	}
	options.Timings = true
	options.Without = []string{config.OrderWeights, study.Informed}
	all, err := compareSeeds(out, stderr, mix, options, o.Seed, o.Seed)
	if err != nil {
		return err
	}
	var page bytes.Buffer
	err = report.Write(&page, report.Report{Mix: mix, Options: options, Settings: o.set, Command: o.command(),
		Measures: measureRows(all), Comparison: all[0]})
	if err != nil {
		return err
	}
	size := page.Len()
	if err := os.WriteFile(o.file, page.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if o.json {
		return o.asJSON(out, all, map[string]any{"file": o.file, "bytes": size, "replaced": replaced})
	}
	was := "written"
	if replaced {
		was = "replaced"
	}
	fmt.Fprintf(out, "%s %s: %.1f MB; open it in a browser\n", o.file, was, float64(size)/1e6)
	return nil
}

// checkOutput checks before the work that the page can be written, and returns whether the file
// exists.
func checkOutput(file string) (replaces bool, err error) {
	there, err := os.Stat(file)
	switch {
	case err == nil && there.IsDir():
		return false, fmt.Errorf("--out %s: is a directory; name a file", file)
	case err == nil:
		return true, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("--out: %w", err)
	}
	if folder, err := os.Stat(filepath.Dir(file)); err != nil || !folder.IsDir() {
		return false, fmt.Errorf("--out %s: there is no directory %s", file, filepath.Dir(file))
	}
	return false, nil
}

// command is the command line that makes the same page, with the default name.
func (o *workOptions) command() string {
	text := fmt.Sprintf("lockstep-sim report --mix %s --seed %d --jobs %d --slots %d --nodes %d --load %v",
		o.mix, o.Seed, o.Jobs, o.Slots, o.Nodes, o.Load)
	for _, s := range o.set {
		text += " --set " + quoted(s)
	}
	return text
}

// quoted is a word in the quotes that a shell needs.
func quoted(word string) string {
	if strings.ContainsAny(word, " \t\n\"'\\$`&|;<>()*?[]#~!{}") {
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return word
}

// notable is the smallest difference that the page calls better or worse.
const notable = 0.01

// measureRows are the rows of compare, for the page.
func measureRows(all []study.Comparison) []report.Measure {
	var rows []report.Measure
	for _, m := range measures {
		expected, plain := m.sum(all, config.OrderExpected), m.sum(all, config.OrderPlain)
		row := report.Measure{Name: m.name, Predictive: m.unit(expected), Plain: m.unit(plain), Change: change(expected, plain)}
		switch {
		case math.Abs(expected-plain) < notable*plain:
		case expected > plain == m.moreIsBetter:
			row.Verdict = "better"
		default:
			row.Verdict = "worse"
		}
		rows = append(rows, row)
	}
	return rows
}
