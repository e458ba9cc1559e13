package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/internal/term"
	"lockstep/sim/study"
)

// compareOptions are the flags of compare.
type compareOptions struct {
	study.MixOptions
	mix       string
	set       []string
	seeds     string
	without   []string
	estimates bool
	kindsBy   string
	json      bool
}

// workFlags defines the flags for the work that runs in each order.
func (o *compareOptions) workFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.mix, "mix", "operator", "the `kind` of work: "+strings.Join(study.MixNames(), ", "))
	flags.IntVar(&o.Jobs, "jobs", 2000, "`number` of jobs")
	flags.IntVar(&o.Slots, "slots", 20, "`number` of run slots")
	flags.IntVar(&o.Nodes, "nodes", 40, "`number` of nodes, with eight instances each")
	flags.Float64Var(&o.Load, "load", 0.1, "`share` of the slots that the work would occupy without waiting")
	flags.Uint64Var(&o.Seed, "seed", 1, "the seed to run")
	flags.StringVar(&o.kindsBy, "kinds-by", study.ByLabel,
		"what tells the daemon the `kind` of a job: label, name, or program, of which there is one")
	flags.StringArrayVar(&o.set, "set", nil, "a setting of lockstep for all runs, `name=value`, such as predictive_ticks=120")
}

// parse finds the mix, reads the settings, and checks the flags of the work.
func (o *compareOptions) parse() (study.Mix, study.CompareOptions, error) {
	mix, err := study.FindMix(o.mix)
	if err != nil {
		return study.Mix{}, study.CompareOptions{}, err
	}
	settings, err := parseSettings(o.set)
	if err != nil {
		return study.Mix{}, study.CompareOptions{}, err
	}
	if settings["predictive"] != nil || settings["order"] != nil {
		return study.Mix{}, study.CompareOptions{}, errors.New("--set order: the comparison sets this itself")
	}
	options := study.CompareOptions{MixOptions: o.MixOptions, Settings: settings, KindsBy: o.kindsBy}
	return mix, options, options.Validate()
}

// compareSeeds runs the work of each seed, with a progress bar. It prints failures to out and then
// returns errBroken.
func compareSeeds(out, stderr io.Writer, mix study.Mix, options study.CompareOptions, first, last uint64) ([]study.Comparison, error) {
	runs := len(study.Runs) - len(options.Without)
	bar := term.StartSteps(stderr, int64(runs)*int64(options.Jobs)*int64(last-first+1))
	defer bar.Stop()
	began, ended := time.Now(), uint64(0)
	options.OnJobEnd = func() {
		ended++
		bar.SetRate(ended, "jobs", time.Since(began))
		bar.Step()
	}
	var all []study.Comparison
	for seed := first; ; seed++ {
		options.Seed = seed
		c, err := study.Compare(mix, options)
		if err != nil {
			bar.Stop()
			fmt.Fprintf(out, "seed %d: %v\n", seed, err)
			return nil, errBroken
		}
		all = append(all, c)
		if seed == last {
			return all, nil
		}
	}
}

// asJSON prints all measurements, and the flags that describe the work.
func (o *compareOptions) asJSON(out io.Writer, all []study.Comparison) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(map[string]any{
		"mix":   o.mix,
		"jobs":  o.Jobs,
		"slots": o.Slots,
		"nodes": o.Nodes,
		"load":  o.Load,
		"set":   o.set,
		"seeds": all,
	})
}

func newCompareCommand() *cobra.Command {
	o := compareOptions{}
	c := &cobra.Command{
		Use:   "compare",
		Short: "Compare the orders of jobs",
		Long: `Compare the orders of jobs. An operator's work is generated from the seed and run by
the daemon's actors in each order, in the same simulated world, without faults: in the
orders expected, weights and plain, and in the order expected with a daemon that knows
beforehand how long each opcode takes (informed). With several seeds the figures are
means. --without omits a run. --estimates asks the daemon every five minutes when jobs
are expected to start, and reports how wrong the first estimate of each job was.
--kinds-by says what tells the daemon the kinds of jobs: the label of --kind, their
names ("verify-17"), or their program alone, which is the same for all jobs.

The mixes:
` + mixList(),
		Example: `  lockstep-sim compare --mix operator --jobs 2000 --slots 20 --seed 1
  lockstep-sim compare --mix maintenance --seeds 1..10 --load 0.3
  lockstep-sim compare --mix disks --estimates --without plain,weights
  lockstep-sim compare --mix evacuation --set predictive_ticks=2880 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	o.workFlags(c.Flags())
	c.Flags().StringVar(&o.seeds, "seeds", "", "seeds to run, `A..B`, both included")
	c.Flags().StringSliceVar(&o.without, "without", nil, "`runs` to omit: expected, weights, plain, informed")
	c.Flags().BoolVar(&o.estimates, "estimates", false, "report how wrong the estimates of starts were")
	c.Flags().BoolVar(&o.json, "json", false, "print all measurements as JSON")
	c.MarkFlagsMutuallyExclusive("seed", "seeds")
	return c
}

func mixList() string {
	var b strings.Builder
	for _, m := range study.Mixes {
		fmt.Fprintf(&b, "  %-12s %s\n", m.Name, m.About)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (o *compareOptions) run(out, stderr io.Writer) error {
	mix, options, err := o.parse()
	if err != nil {
		return err
	}
	for _, name := range o.without {
		if !slices.Contains(study.Runs, name) {
			return fmt.Errorf("--without %s: there are %s", name, strings.Join(study.Runs, ", "))
		}
	}
	options.Without, options.Estimates = o.without, o.estimates
	first, last, err := seedSpan(o.Seed, o.seeds)
	if err != nil {
		return err
	}
	all, err := compareSeeds(out, stderr, mix, options, first, last)
	switch {
	case err != nil:
		return err
	case o.json:
		return o.asJSON(out, all)
	}
	o.head(out, mix, first, last)
	printTables(out, all)
	return nil
}

// head describes the work and the seeds in front of the tables.
func (o *compareOptions) head(out io.Writer, mix study.Mix, first, last uint64) {
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

// parseSettings reads name=value for each setting; the value is JSON.
func parseSettings(words []string) (map[string][]byte, error) {
	settings := map[string][]byte{}
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		if !found || !json.Valid([]byte(value)) {
			return nil, fmt.Errorf("--set %s: want name=value, with a number or true or false", word)
		}
		settings[name] = []byte(value)
	}
	return settings, nil
}
