package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"lockstep/sim"
)

// yearOptions are the flags of year.
type yearOptions struct {
	year sim.Year
	json bool
}

func newYearCommand() *cobra.Command {
	o := yearOptions{}
	c := &cobra.Command{
		Use:   "year",
		Short: "Run a schedule for a year in which the master is killed again and again",
		Long: `Run a schedule for a year in which the master is killed again and again.

A cluster has one schedule, each hour in the zone Europe/Berlin. The seed draws when
the master is killed: half of the times are around due times. With some kills the
majority of the nodes is lost for hours, or no node runs for up to 40 hours.

At the end each due time, found by a search of all minutes, must have exactly one job
on time, one that is late for a reason, or a reason why it was missed; and each job
must have a due time.`,
		Example: `  lockstep-sim year
  lockstep-sim year --days 30 --kills 20 --seed 7
  lockstep-sim year --days 10 --kills 3 --plant lost-firing    # must fail`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) },
	}
	flags := c.Flags()
	flags.Uint64Var(&o.year.Seed, "seed", 1, "the seed of the run")
	flags.IntVar(&o.year.Nodes, "nodes", 3, "`nodes` of the cluster, 3 to 9")
	flags.IntVar(&o.year.Days, "days", 365, "`days` of virtual time, at least 4")
	flags.IntVar(&o.year.Kills, "kills", 50, "`number` of kills of the master")
	flags.StringVar(&o.year.Mutation, "plant", "", "the `name` of a mutation, a bug built into the run; run --help lists them")
	flags.BoolVar(&o.json, "json", false, "print the result as JSON")
	return c
}

func (o *yearOptions) run(out io.Writer) error {
	sim.CollectRarely()
	began := time.Now()
	r, err := o.year.Run()
	if err != nil {
		return err
	}
	if seconds := time.Since(began).Seconds(); !o.json {
		o.show(out, r, seconds)
	} else if err := json.NewEncoder(out).Encode(struct {
		sim.YearResult
		Seconds float64 `json:"seconds"`
	}{r, seconds}); err != nil {
		return err
	}
	if r.Err != nil {
		return errBroken
	}
	return nil
}

// show prints the result as text.
func (o *yearOptions) show(out io.Writer, r sim.YearResult, seconds float64) {
	fmt.Fprintf(out, "%d days, %d kills, %d masters, %d steps in %.1f s\n", o.year.Days, r.Kills, r.Masters, r.Steps, seconds)
	if r.Err != nil {
		fmt.Fprintf(out, "seed %d: %v\n", o.year.Seed, r.Err)
		return
	}
	fmt.Fprintf(out, "%d due times: %d jobs on time, %d late; %d missed, of which %d are too old to be named each: good\n",
		r.Due, r.OnTime, r.Late, r.Missed+r.TooOld, r.TooOld)
}
