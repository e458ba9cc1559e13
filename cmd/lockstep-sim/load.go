package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/core/config"
	"lockstep/sim/study"
	"lockstep/sim/study/throughput"
)

// loadOptions are the flags of load.
type loadOptions struct {
	study.MixOptions
	mix       string
	set       []string
	plain     bool
	only      string
	decisions int
	asJSON    bool
}

func newLoadCommand() *cobra.Command {
	o := loadOptions{}
	c := &cobra.Command{
		Use:   "load",
		Short: "Run much work in virtual time, and measure the scheduler's decisions",
		Long: `Run much work in virtual time, and measure the scheduler's decisions.

The work is generated from the seed. It uses only the deciding packages of the daemon
(order of jobs, grants of locks): no files, processes or messages. There are two
measurements:

  run     all of the work, in virtual time: waiting times of jobs, real time of a
          decision, memory of a pending job
  growth  backlogs of 1,000, 10,000 ... jobs, up to --jobs, that come all at once;
          in each, --decisions jobs end, and others are chosen and come

If work comes faster than slots and locks permit, the backlog and the waits grow:
choose a smaller --load, or --only growth.

The mixes:
` + mixList(),
		Example: `  lockstep-sim load --jobs 1000000 --nodes 1000 --mix operator
  lockstep-sim load --only growth --jobs 100000 --plain
  lockstep-sim load --only run --mix maintenance --load 0.03 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.mix, "mix", "operator", "the `kind` of work: "+strings.Join(study.MixNames(), ", "))
	flags.IntVar(&o.Jobs, "jobs", 100_000, "`number` of jobs, at most 1000000")
	flags.IntVar(&o.Slots, "slots", 20, "`number` of run slots")
	flags.IntVar(&o.Nodes, "nodes", 1000, "`number` of nodes, at most 10000")
	flags.Float64Var(&o.Load, "load", 0.1, "`share` of the slots that the work would occupy without waiting")
	flags.Uint64Var(&o.Seed, "seed", 1, "the seed of the work")
	flags.BoolVar(&o.plain, "plain", false, "use the plain order")
	flags.StringArrayVar(&o.set, "set", nil, "a setting of lockstep, `name=value`, such as predictive_ticks=120")
	flags.StringVar(&o.only, "only", "", "only one of `run` and growth")
	flags.IntVar(&o.decisions, "decisions", 2000, "`number` of decisions for each backlog")
	flags.BoolVar(&o.asJSON, "json", false, "print all measurements as JSON; times in seconds")
	return c
}

// loadResult is the result that is printed.
type loadResult struct {
	Mix    string                 `json:"mix"`
	Jobs   int                    `json:"jobs"`
	Slots  int                    `json:"slots"`
	Nodes  int                    `json:"nodes"`
	Load   float64                `json:"load"`
	Seed   uint64                 `json:"seed"`
	Plain  bool                   `json:"plain"`
	Set    []string               `json:"set"`
	Run    *throughput.Result     `json:"run,omitempty"`
	Growth []throughput.GrowthRow `json:"growth,omitempty"`

	about string // of the mix
}

func (o *loadOptions) run(out, stderr io.Writer) error {
	settings, err := o.settings()
	if err != nil {
		return err
	}
	work, l, err := o.work()
	if err != nil {
		return err
	}
	l.Jobs, l.Seed, l.Plain, l.Set = work.Len(), o.Seed, settings.Order == config.OrderPlain, o.set
	var sizes []int
	total := 0
	if o.only != "run" {
		sizes = throughput.Sizes(work.Len())
		for _, n := range sizes {
			total += n
		}
	}
	if o.only != "growth" {
		total += work.Len()
	}
	bar := term.StartSteps(stderr, int64(total))
	began, jobs := time.Now(), uint64(0)
	options := throughput.Options{Slots: l.Slots, Settings: settings, OnJob: func() {
		jobs++
		bar.SetRate(jobs, "jobs", time.Since(began))
		bar.Step()
	}}
	err = o.measure(work, options, sizes, l)
	bar.Stop()
	if err != nil {
		return err
	}
	if o.asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(l)
	}
	l.report(out)
	return nil
}

// measure runs the chosen measurements: the work as a whole, and its growth for each size.
func (o *loadOptions) measure(work throughput.Work, options throughput.Options, sizes []int, l *loadResult) error {
	if o.only != "growth" {
		result, err := throughput.Run(work, options)
		if err != nil {
			return err
		}
		l.Run = &result
	}
	for _, n := range sizes {
		row, err := throughput.Growth(work, options, n, o.decisions)
		if err != nil {
			return err
		}
		l.Growth = append(l.Growth, row)
	}
	return nil
}

// settings returns the settings of the run, and checks the flags that do not concern the work.
func (o *loadOptions) settings() (config.Settings, error) {
	switch {
	case o.only != "" && o.only != "run" && o.only != "growth":
		return config.Settings{}, fmt.Errorf("--only %s: want run or growth", o.only)
	case o.decisions < 1 || o.decisions > 1_000_000:
		return config.Settings{}, fmt.Errorf("--decisions %d: want 1 to 1000000", o.decisions)
	}
	values, err := parseSettings(o.set)
	if err != nil {
		return config.Settings{}, err
	}
	if o.plain {
		values["predictive"] = []byte("false")
	}
	return study.SettingsWith(values)
}

// work generates the work of a mix, and begins the result with its description.
func (o *loadOptions) work() (*study.Plan, *loadResult, error) {
	mix, err := study.FindMix(o.mix)
	if err != nil {
		return nil, nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	return study.NewPlan(mix, o.MixOptions), &loadResult{Mix: mix.Name, about: mix.About, Slots: o.Slots, Nodes: o.Nodes, Load: o.Load}, nil
}
