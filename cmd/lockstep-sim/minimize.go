package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/sim"
)

// minimizeOptions are the flags of minimize.
type minimizeOptions struct {
	runOptions
	runs int
	out  string
}

// minimized is the result of minimize.
type minimized struct {
	Runs     int         `json:"runs"`  // that it took
	Steps    uint64      `json:"steps"` // of the smallest
	Faults   []sim.Fault `json:"faults"`
	Requests []string    `json:"requests"`
	Failed   *failed     `json:"failed"`
}

func newMinimizeCommand() *cobra.Command {
	o := minimizeOptions{}
	c := &cobra.Command{
		Use:   "minimize [TRACE]",
		Short: "Reduce a run that fails",
		Long: `Reduce a run that fails: remove faults and requests as long as the same checker
fails. The run is that of a trace, or of --seed with the flags of run. The remaining
run is shown, and its trace written to a file.

With --json: {"runs", "steps": number, "faults", "requests": [string], "failed": as
by run}`,
		Example: `  lockstep-sim minimize seed-17.trace
  lockstep-sim minimize --seed 17 --nodes 3 --out small.trace`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := o.read(c, args[0]); err != nil {
					return err
				}
			}
			return o.run(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.reproFlags(c)
	c.Flags().IntVar(&o.runs, "runs", 3000, "maximum number of `runs`")
	c.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	c.Flags().StringVar(&o.out, "out", "", "`file` for the trace (default minimal-SEED.trace)")
	return c
}

// read takes the run from the head of a trace file. It refuses the flags that would describe another run.
func (o *minimizeOptions) read(c *cobra.Command, name string) error {
	for _, flag := range []string{"seed", "nodes", "steps", "faults", "plant"} {
		if c.Flags().Changed(flag) {
			return fmt.Errorf("--%s: the trace %s determines the run", flag, name)
		}
	}
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	o.repro, err = sim.ReadRepro(bufio.NewScanner(file))
	return err
}

func (o *minimizeOptions) run(out, stderr io.Writer) error {
	if o.runs < 2 {
		return fmt.Errorf("--runs %d: want 2 or more", o.runs)
	}
	sim.CollectRarely()
	bar := term.StartSteps(stderr, int64(o.runs))
	m, err := sim.Minimize(o.repro, o.runs, func(run, faults, requests int) {
		bar.SetLabel(fmt.Sprintf("run %d: %d faults, %d requests", run, faults, requests))
		bar.Step()
	})
	bar.Stop()
	if errors.Is(err, sim.ErrGood) {
		return fmt.Errorf("seed %d: %w: there is nothing to reduce", o.repro.Seed, err)
	}
	if err != nil {
		return err
	}
	name := o.out
	if name == "" {
		name = fmt.Sprintf("minimal-%d.trace", o.repro.Seed)
	}
	if err := writeTrace(name, m.Repro); err != nil {
		return err
	}
	is := minimized{
		Runs:     m.Runs,
		Steps:    m.Result.Steps,
		Faults:   m.Repro.Recipe.Faults,
		Requests: textsOf(m.Repro.Recipe.Requests),
		Failed:   failedOf(m.Result),
	}
	is.Failed.Trace = name
	if o.json {
		return json.NewEncoder(out).Encode(is)
	}
	fmt.Fprintf(out, "after %d runs, %d steps:\n  faults:   %s\n  requests: %s\n%s\ntrace: %s\nagain: lockstep-sim replay %s --show\n",
		is.Runs, is.Steps, joined(textsOf(is.Faults)), joined(is.Requests), is.Failed.Text, name, name)
	return nil
}

func textsOf[T fmt.Stringer](list []T) []string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.String()
	}
	return texts
}

func joined(texts []string) string { return cmp.Or(strings.Join(texts, "; "), "none") }
