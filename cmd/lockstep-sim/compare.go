package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/sim"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	sim.MixOptions
	mix    string
	seeds  string
	set    []string
	asJSON bool
}

func newCompareCommand() *cobra.Command {
	o := compareOptions{}
	c := &cobra.Command{
		Use:   "compare",
		Short: "Compare the predictive order of jobs with the plain one",
		Long: `Compare the predictive order of jobs with the plain one. An operator's work is made
from the seed, and done twice by the daemon's actors, in the same simulated world,
without faults. With several seeds the figures are the means of them.

The mixes:
` + mixList(),
		Example: `  lockstep-sim compare --mix operator --jobs 2000 --slots 20 --seed 1
  lockstep-sim compare --mix maintenance --seeds 1..10 --load 0.3
  lockstep-sim compare --mix evacuation --set predictive_ticks=2880 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	flags := c.Flags()
	flags.StringVar(&o.mix, "mix", "operator", "the `kind` of work: "+strings.Join(sim.MixNames(), ", "))
	flags.IntVar(&o.Jobs, "jobs", 2000, "`number` of jobs")
	flags.IntVar(&o.Slots, "slots", 20, "`number` of run slots")
	flags.IntVar(&o.Nodes, "nodes", 40, "`number` of nodes, with eight instances each")
	flags.Float64Var(&o.Load, "load", 0.1, "`share` of the slots that the work would keep busy if nobody waited")
	flags.Uint64Var(&o.Seed, "seed", 1, "the seed to run")
	flags.StringVar(&o.seeds, "seeds", "", "seeds to run, `A..B`, both included")
	flags.StringArrayVar(&o.set, "set", nil, "a setting of lockstep's for both runs, `name=value`, as predictive_ticks=120")
	flags.BoolVar(&o.asJSON, "json", false, "print everything that was measured, as JSON")
	c.MarkFlagsMutuallyExclusive("seed", "seeds")
	return c
}

func mixList() string {
	var b strings.Builder
	for _, m := range sim.Mixes {
		fmt.Fprintf(&b, "  %-12s %s\n", m.Name, m.About)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (o *compareOptions) run(out, complaints io.Writer) error {
	mix, err := sim.FindMix(o.mix)
	if err != nil {
		return err
	}
	first, last, err := seedSpan(o.Seed, o.seeds)
	if err != nil {
		return err
	}
	settings, err := parseSettings(o.set)
	if err != nil {
		return err
	}
	options := sim.CompareOptions{MixOptions: o.MixOptions, Settings: settings}
	if err := options.Validate(); err != nil {
		return err
	}
	bar := startProgress(complaints, 2*int64(o.Jobs)*int64(last-first+1))
	began, ended := time.Now(), uint64(0)
	options.Ended = func() {
		ended++
		bar.show("jobs", ended, time.Since(began))
	}
	var all []sim.Comparison
	for seed := first; ; seed++ {
		options.Seed = seed
		c, err := sim.Compare(mix, options)
		if err != nil {
			bar.stop()
			fmt.Fprintf(out, "seed %d: %v\n", seed, err)
			return errBroken
		}
		all = append(all, c)
		if seed == last {
			break
		}
	}
	bar.stop()
	if o.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"mix": mix.Name, "jobs": o.Jobs, "slots": o.Slots, "nodes": o.Nodes,
			"load": o.Load, "set": o.set, "seeds": all})
	}
	o.head(out, mix, first, last)
	report(out, all)
	return nil
}

// head says what was done.
func (o *compareOptions) head(out io.Writer, mix sim.Mix, first, last uint64) {
	fmt.Fprintf(out, "%s: %s\n%d jobs, %d slots, %d nodes, load %g, ", mix.Name, mix.About, o.Jobs, o.Slots, o.Nodes, o.Load)
	if len(o.set) > 0 {
		fmt.Fprintf(out, "%s, ", strings.Join(o.set, ", "))
	}
	if first == last {
		fmt.Fprintf(out, "seed %d\n\n", first)
	} else {
		fmt.Fprintf(out, "means of the seeds %d..%d\n\n", first, last)
	}
}

// parseSettings reads name=value; the value is JSON.
func parseSettings(words []string) (map[string][]byte, error) {
	settings := map[string][]byte{}
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		switch {
		case !found || !json.Valid([]byte(value)):
			return nil, fmt.Errorf("--set %s: want name=value, with a number or true or false", word)
		case name == "predictive":
			return nil, errors.New("--set predictive: this is what is compared")
		}
		settings[name] = []byte(value)
	}
	return settings, nil
}
