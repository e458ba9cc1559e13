package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
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
	swf       string
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

The work is generated from the seed, or read from a trace. It uses only the deciding
packages of the daemon (order of jobs, grants of locks): no files, processes or
messages. There are two measurements:

  run     all of the work, in virtual time: waiting times of jobs, real time of a
          decision, memory of a pending job
  growth  backlogs of 1,000, 10,000 ... jobs, up to --jobs, that come all at once;
          in each, --decisions jobs end, and others are chosen and come

If work comes faster than slots and locks permit, the backlog and the waits grow:
choose a smaller --load, or --only growth.

Traces are in the Standard Workload Format of the Parallel Workloads Archive, plain
or compressed with gzip. Each job becomes one command:
  * it comes at its submit time, or after the end of its preceding job and the think
    time, if that is later and the trace has that job before it
  * it takes its run time, also if it failed or was canceled while it ran
  * it locks nodes exclusively: its share of the machine's processors (requested, or
    else allocated, of MaxProcs), rounded up. The seed chooses the nodes when the job
    comes. A batch scheduler would choose free nodes, so do not compare the waits
    with those of the trace
  * jobs canceled before they ran, parts of checkpointed jobs, and jobs with
    neither run time nor processors are omitted, and counted
There are --nodes nodes, by default MaxNodes or MaxProcs; and --slots slots, by
default one per node, since no more jobs can run at once.

The mixes:
` + mixList(),
		Example: `  lockstep-sim load --jobs 1000000 --nodes 1000 --mix operator
  lockstep-sim load --only growth --jobs 100000 --plain
  lockstep-sim load --only run --mix maintenance --load 0.03 --json
  lockstep-sim load --swf trace.swf.gz --nodes 128 --set predictive_ticks=2880`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for name, value := range map[string]int{"jobs": o.Jobs, "slots": o.Slots, "nodes": o.Nodes} {
				if c.Flags().Changed(name) && value == 0 {
					return fmt.Errorf("--%s %d: want 1 or more", name, value)
				}
			}
			return o.run(c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.mix, "mix", "operator", "the `kind` of work: "+strings.Join(study.MixNames(), ", "))
	flags.StringVar(&o.swf, "swf", "", "read the work from a trace, a `file`")
	flags.IntVar(&o.Jobs, "jobs", 0, "`number` of jobs, at most 1000000 (default 100000, or all of a trace)")
	flags.IntVar(&o.Slots, "slots", 0, "`number` of run slots (default 20, or the nodes of a trace)")
	flags.IntVar(&o.Nodes, "nodes", 0, "`number` of nodes, at most 10000 (default 1000, or those of a trace)")
	flags.Float64Var(&o.Load, "load", 0.1, "`share` of the slots that the work would occupy without waiting")
	flags.Uint64Var(&o.Seed, "seed", 1, "the seed of the work, or of the nodes that jobs of a trace lock")
	flags.BoolVar(&o.plain, "plain", false, "use the plain order")
	flags.StringArrayVar(&o.set, "set", nil, "a setting of lockstep, `name=value`, such as predictive_ticks=120")
	flags.StringVar(&o.only, "only", "", "only one of `run` and growth")
	flags.IntVar(&o.decisions, "decisions", 2000, "`number` of decisions for each backlog")
	flags.BoolVar(&o.asJSON, "json", false, "print all measurements as JSON; times in seconds")
	c.MarkFlagsMutuallyExclusive("swf", "mix")
	c.MarkFlagsMutuallyExclusive("swf", "load")
	return c
}

// loadResult is the result that is printed.
type loadResult struct {
	Mix    string                 `json:"mix,omitempty"`
	Trace  string                 `json:"trace,omitempty"`
	Taken  *throughput.LineCounts `json:"taken,omitempty"`
	Jobs   int                    `json:"jobs"`
	Slots  int                    `json:"slots"`
	Nodes  int                    `json:"nodes"`
	Load   float64                `json:"load,omitempty"`
	Seed   uint64                 `json:"seed"`
	Plain  bool                   `json:"plain"`
	Set    []string               `json:"set"`
	Run    *throughput.Result     `json:"run,omitempty"`
	Growth []throughput.GrowthRow `json:"growth,omitempty"`
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

// measure runs the chosen measurements.
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

// settings checks the flags that do not concern the work.
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

// work generates or reads the work.
func (o *loadOptions) work() (throughput.Work, *loadResult, error) {
	if o.swf != "" {
		return o.trace()
	}
	mix, err := study.FindMix(o.mix)
	if err != nil {
		return nil, nil, err
	}
	options := o.MixOptions
	if options.Jobs == 0 {
		options.Jobs = 100_000
	}
	if options.Slots == 0 {
		options.Slots = 20
	}
	if options.Nodes == 0 {
		options.Nodes = 1000
	}
	if err := options.Validate(); err != nil {
		return nil, nil, err
	}
	return study.NewPlan(mix, options), &loadResult{Mix: mix.Name, Slots: options.Slots, Nodes: options.Nodes, Load: o.Load}, nil
}

// trace reads the work from a file.
func (o *loadOptions) trace() (throughput.Work, *loadResult, error) {
	if o.Jobs < 0 || o.Slots < 0 || o.Nodes < 0 {
		return nil, nil, errors.New("--jobs, --slots and --nodes: want 1 or more")
	}
	file, err := os.Open(o.swf)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	plain, err := unzipped(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.swf, err)
	}
	t, err := throughput.ReadTrace(plain, throughput.TraceOptions{Seed: o.Seed, Nodes: o.Nodes, Jobs: o.Jobs})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.swf, err)
	}
	slots := o.Slots
	if slots == 0 {
		slots = t.Nodes
	}
	return t, &loadResult{Trace: o.swf, Taken: &t.Lines, Slots: slots, Nodes: t.Nodes}, nil
}

// gzipMagic is the beginning of compressed files.
const gzipMagic = "\x1f\x8b"

// unzipped returns the text of a file, decompressed if needed.
func unzipped(file io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(file)
	if magic, _ := buffered.Peek(len(gzipMagic)); string(magic) == gzipMagic { // a read repeats the error
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}
