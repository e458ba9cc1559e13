package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lockstep/sim"
)

// errDiffers means that a run differs from its trace; the difference is printed already.
var errDiffers = errors.New("the run differs from its trace")

// contextLines is the number of lines shown before the first difference.
const contextLines = 20

func newReplayCommand() *cobra.Command {
	show, asJSON := false, false
	c := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Repeat the run of a trace, and compare",
		Long: `Repeat the run of a trace, and compare line by line. The head of the trace describes
the run. With another version of lockstep the runs may differ: the first line that
differs is shown, with the lines before it.

Exit codes: 0 the same, and good; 1 the same, and a checker fails; 3 it differs.
With --json: {"same": bool, "lines": number that are the same, "failed"?: as by
run, "trace", "run": string, the lines that differ}`,
		Example: `  lockstep-sim replay seed-17.trace
  lockstep-sim replay seed-17.trace --show | less
  lockstep-sim replay seed-17.trace --json | jq .same`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			r := &comparedRun{out: c.OutOrStdout(), show: show}
			if err := r.replay(file); err != nil {
				return err
			}
			return r.report(asJSON)
		},
	}
	c.Flags().BoolVar(&show, "show", false, "print all events")
	c.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	c.MarkFlagsMutuallyExclusive("show", "json")
	return c
}

// comparedRun compares a run with its trace.
type comparedRun struct {
	out    io.Writer
	show   bool
	lines  *bufio.Scanner // of the trace
	before []string       // the latest equal lines

	Same   bool    `json:"same"`
	Lines  int     `json:"lines"` // that are
	Failed *failed `json:"failed,omitempty"`
	Trace  string  `json:"trace,omitempty"` // the line of the trace, where they differ
	Run    string  `json:"run,omitempty"`   // and that of this run
}

// endOfTrace stands for a missing line at the end.
const endOfTrace = "(nothing more)"

// replay repeats the run of a trace and compares the lines. A difference is in Same; the error is about a trace that is unusable.
func (r *comparedRun) replay(trace io.Reader) error {
	r.lines, r.Same = bufio.NewScanner(trace), true
	of, err := sim.ReadRepro(r.lines)
	if err != nil {
		return err
	}
	result, err := of.Run(r.line)
	if err != nil {
		return err
	}
	if r.Same && r.lines.Scan() {
		r.differs(r.lines.Text(), endOfTrace)
	}
	r.Failed = failedOf(result)
	return r.lines.Err()
}

func (r *comparedRun) line(l sim.Line) {
	is := l.String()
	if r.show && r.Same {
		fmt.Fprintln(r.out, is)
	}
	switch {
	case !r.Same:
	case !r.lines.Scan():
		r.differs(endOfTrace, is)
	case r.lines.Text() != is:
		r.differs(r.lines.Text(), is)
	default:
		r.Lines++
		if r.before = append(r.before, is); len(r.before) > contextLines {
			r.before = r.before[1:]
		}
	}
}

func (r *comparedRun) differs(was, is string) { r.Same, r.Trace, r.Run = false, was, is }

// report prints the result; the error determines the exit code: errDiffers, errBroken, or nil for the same good run.
func (r *comparedRun) report(asJSON bool) error {
	switch {
	case asJSON:
		if err := json.NewEncoder(r.out).Encode(r); err != nil {
			return err
		}
	case !r.Same:
		if !r.show {
			for _, line := range r.before {
				fmt.Fprintln(r.out, " ", line)
			}
		}
		fmt.Fprintf(r.out, "- %s\n+ %s\nline %d differs: - is the trace, + is this run\n", r.Trace, r.Run, r.Lines+1)
	case r.Failed != nil:
		fmt.Fprintf(r.out, "the same %d lines; seed %d: %s\n", r.Lines, r.Failed.Seed, r.Failed.Text)
	default:
		fmt.Fprintf(r.out, "the same %d lines: good\n", r.Lines)
	}
	switch {
	case !r.Same:
		return errDiffers
	case r.Failed != nil:
		return errBroken
	}
	return nil
}
