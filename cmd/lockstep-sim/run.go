package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/sim"
)

// runOptions are the flags of run.
type runOptions struct {
	seed   uint64
	seeds  string
	steps  uint64
	faults string
	nodes  int
	trace  bool
}

func newRunCommand() *cobra.Command {
	o := runOptions{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one seed, or many",
		Long: `Run one seed, or many. A seed is a whole run: the size of the world, the work, the
faults and the order in which everything happens. The same seed with the same
--nodes, --steps and --faults gives the same run.

It stops at the first run in which a checker fails, and prints its last lines.`,
		Example: `  lockstep-sim run --seed 7 --trace
  lockstep-sim run --seeds 1..10000
  lockstep-sim run --seeds 1..1000 --faults crash,disk
  lockstep-sim run --nodes 3 --seeds 1..1000 --faults crash,partition,pause`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	c.Flags().Uint64Var(&o.seed, "seed", 1, "the seed to run")
	c.Flags().StringVar(&o.seeds, "seeds", "", "seeds to run, `A..B`, both included")
	c.Flags().Uint64Var(&o.steps, "steps", 20_000, "`steps` of a run that have faults; then they stop, and everything must end")
	c.Flags().StringVar(&o.faults, "faults", "all", "all, none, or kinds separated by commas: "+strings.Join(sim.FaultKinds, ", "))
	c.Flags().IntVar(&o.nodes, "nodes", 1, "`nodes` of the cluster, 1 to 9; 1 is a node that is alone")
	c.Flags().BoolVar(&o.trace, "trace", false, "print everything that happens")
	c.MarkFlagsMutuallyExclusive("seed", "seeds")
	return c
}

func (o *runOptions) run(out, complaints io.Writer) error {
	first, last, err := seedSpan(o.seed, o.seeds)
	if err != nil {
		return err
	}
	faults, err := sim.ParseFaults(o.faults)
	if err != nil {
		return err
	}
	if o.nodes < 0 || o.nodes > 9 {
		return fmt.Errorf("--nodes %d: want 1 to 9", o.nodes)
	}
	options := sim.RunOptions{Steps: o.steps, Faults: faults, Nodes: o.nodes}
	if o.trace {
		options.Sink = func(l sim.Line) { fmt.Fprintln(out, l) }
	}
	bar := startProgress(complaints, int64(last-first)+1)
	began, steps := time.Now(), uint64(0)
	for seed := first; ; seed++ {
		r := sim.Run(seed, options)
		steps += r.Steps
		bar.show("steps", steps, time.Since(began))
		if r.Err != nil {
			bar.stop()
			o.report(out, r)
			return errBroken
		}
		if seed == last {
			bar.stop()
			took := time.Since(began)
			fmt.Fprintf(out, "%d runs, %d steps in %.1f s, %.0f steps/s: good\n", last-first+1, steps, took.Seconds(), float64(steps)/took.Seconds())
			return nil
		}
	}
}

// report shows how a run has failed and how to see it again.
func (o *runOptions) report(out io.Writer, r sim.Result) {
	if !o.trace {
		for _, line := range r.Last {
			fmt.Fprintln(out, line)
		}
	}
	fmt.Fprintf(out, "\nseed %d: %v\nagain: lockstep-sim run --nodes %d --seed %d --steps %d --faults %s --trace\n", r.Seed, r.Err, max(o.nodes, 1), r.Seed, o.steps, o.faults)
}

// seedSpan reads A..B; "" is the one seed.
func seedSpan(seed uint64, seeds string) (first, last uint64, err error) {
	if seeds == "" {
		return seed, seed, nil
	}
	from, to, found := strings.Cut(seeds, "..")
	first, errFirst := strconv.ParseUint(from, 10, 64)
	last, errLast := strconv.ParseUint(to, 10, 64)
	if !found || errors.Join(errFirst, errLast) != nil || last < first {
		return 0, 0, fmt.Errorf("--seeds %s: want A..B, with A not above B", seeds)
	}
	return first, last, nil
}
