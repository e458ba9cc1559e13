package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/sim"
)

// runOptions are the flags of run.
type runOptions struct {
	repro sim.Repro
	seeds string
	trace bool
	keep  string
	json  bool
}

func newRunCommand() *cobra.Command {
	o := runOptions{}
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one seed, or many",
		Long: `Run one seed, or many. A seed determines a run: the size of the world, the work, the
faults and the order of steps. The same seed with the same --nodes, --steps and
--faults gives the same run.

It stops at the first run in which a checker fails, prints its last lines, and
writes its trace to a file, for replay and minimize.

To see a checker fail, --plant runs lockstep with a mutation:
` + mutationList(),
		Example: `  lockstep-sim run --seed 7 --trace
  lockstep-sim run --seeds 1..10000
  lockstep-sim run --seeds 1..1000 --faults crash,disk
  lockstep-sim run --nodes 3 --seeds 1..1000 --faults crash,partition,pause
  lockstep-sim run --seeds 1..100 --plant unsynced-ends    # must fail`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout(), c.ErrOrStderr()) },
	}
	o.reproFlags(c)
	c.Flags().StringVar(&o.seeds, "seeds", "", "seeds to run, `A..B`, both included")
	c.Flags().BoolVar(&o.trace, "trace", false, "print all events")
	c.Flags().StringVar(&o.keep, "keep", ".", "`directory` for the trace of a failed run; \"\": none")
	c.Flags().BoolVar(&o.json, "json", false, "print the result as JSON")
	c.MarkFlagsMutuallyExclusive("seed", "seeds")
	c.MarkFlagsMutuallyExclusive("trace", "json")
	return c
}

func mutationList() string {
	var b strings.Builder
	for _, p := range sim.AllMutations {
		fmt.Fprintf(&b, "  %-18s %s\n", p.Name, p.About)
	}
	return strings.TrimRight(b.String(), "\n")
}

// reproFlags adds the flags that determine a run.
func (o *runOptions) reproFlags(c *cobra.Command) {
	c.Flags().Uint64Var(&o.repro.Seed, "seed", 1, "the seed to run")
	c.Flags().Uint64Var(&o.repro.Steps, "steps", 20_000, "`steps` of a run with faults; after them all jobs must end")
	c.Flags().StringVar(&o.repro.Faults, "faults", "all", "all, none, or `kinds` separated by commas: "+strings.Join(sim.FaultKinds, ", "))
	c.Flags().IntVar(&o.repro.Nodes, "nodes", 1, "`nodes` of the cluster, 1 to 9; 1 is a single node")
	c.Flags().IntVar(&o.repro.Config, "config", sim.ConfigSeeds,
		"about one of `n` seeds has clients that change the configuration; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Readers, "readers", sim.ReaderSeeds, "about one of `n` seeds has clients that only ask; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Holders, "holders", sim.HolderSeeds,
		"in about one of `n` seeds job programs take time to load, and clients hold jobs meanwhile; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Crowd, "crowd", sim.CrowdSeeds,
		"in about one of `n` seeds a user takes all connections that the daemon gives, and reads slowly; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Hands, "hands", sim.HandSeeds,
		"in about one of `n` seeds an operator changes the run directory and settings.json between starts; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Removals, "removals", sim.RemovalSeeds,
		"in about one of `n` seeds an operator removes files of ended jobs, on one node; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Programs, "programs", sim.ProgramSeeds,
		"about one of `n` seeds has programs that compete with jobs for locks; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Ganeti, "ganeti", sim.GanetiSeeds,
		"in about one of `n` seeds Ganeti's program runs the jobs of its opcodes, on one node; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Followers, "followers", sim.FollowerSeeds,
		"about one of `n` seeds has clients that follow the output of their jobs; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Progress, "progress", sim.ProgressSeeds,
		"about one of `n` seeds has clients that look at the progress of commands; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Users, "users", sim.UserSeeds,
		"about one of `n` seeds has clients of several accounts with different roles; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Tries, "tries", sim.TrySeeds,
		"about one of `n` seeds has clients whose commands fail and are tried again; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Schedules, "schedules", sim.ScheduleSeeds,
		"about one of `n` seeds has clients with schedules; 1: all, 0: none")
	c.Flags().IntVar(&o.repro.Times, "times", sim.TimeSeeds,
		"about one of `n` seeds has clients whose jobs start at times; 1: all, 0: none")
	c.Flags().StringVar(&o.repro.Mutation, "plant", "", "the `name` of a mutation, a bug built into the run; run --help lists them")
}

func (o *runOptions) run(out, stderr io.Writer) error {
	first, last, err := seedSpan(o.repro.Seed, o.seeds)
	if err != nil {
		return err
	}
	var sink func(sim.Line)
	if o.trace {
		sink = func(l sim.Line) { fmt.Fprintln(out, l) }
	}
	sim.CollectRarely()
	bar := term.StartSteps(stderr, int64(last-first)+1)
	defer bar.Stop()
	began, sum := time.Now(), sweep{}
	for seed := first; ; seed++ {
		o.repro.Seed = seed
		r, err := o.repro.Run(sink)
		if err != nil {
			return err
		}
		sum.Runs, sum.Steps, sum.Deliveries = sum.Runs+1, sum.Steps+r.Steps, sum.Deliveries+r.Deliveries
		sum.Seconds = time.Since(began).Seconds()
		bar.SetRate(sum.Deliveries, "deliveries", time.Since(began))
		bar.Step()
		if r.Err != nil || seed == last {
			bar.Stop()
			return o.report(out, sum, r)
		}
	}
}

// sweep is the result of several runs.
type sweep struct {
	Runs       uint64  `json:"runs"`
	Steps      uint64  `json:"steps"`
	Deliveries uint64  `json:"deliveries"`
	Seconds    float64 `json:"seconds"`
	Failed     *failed `json:"failed,omitempty"`
}

// failed is the last run if it failed, else nil.
type failed struct {
	Seed    uint64 `json:"seed"`
	Checker string `json:"checker"`
	Step    uint64 `json:"step"`
	Text    string `json:"text"`
	Trace   string `json:"trace,omitempty"` // its file
}

// failedOf describes the violation of a run; nil for a good one.
func failedOf(r sim.Result) *failed {
	var broken *sim.Violation
	if !errors.As(r.Err, &broken) {
		return nil
	}
	return &failed{Seed: r.Seed, Checker: broken.Checker, Step: broken.Step, Text: broken.Error()}
}

// report prints the result; for a failed run also how to repeat it, after its trace is kept if that is wanted. The error is errBroken for
// a failed run.
func (o *runOptions) report(out io.Writer, sum sweep, r sim.Result) error {
	sum.Failed = failedOf(r)
	if sum.Failed != nil && o.keep != "" {
		sum.Failed.Trace = filepath.Join(o.keep, fmt.Sprintf("seed-%d.trace", r.Seed))
		if err := writeTrace(sum.Failed.Trace, o.repro); err != nil {
			return err
		}
	}
	switch {
	case o.json:
		if err := json.NewEncoder(out).Encode(sum); err != nil {
			return err
		}
	case sum.Failed == nil:
		fmt.Fprintf(out, "%d runs, %d steps, %d deliveries in %.1f s, %.0f deliveries/s: good\n",
			sum.Runs, sum.Steps, sum.Deliveries, sum.Seconds, float64(sum.Deliveries)/sum.Seconds)
	default:
		o.show(out, sum.Failed, r.Last)
	}
	if sum.Failed != nil {
		return errBroken
	}
	return nil
}

// show prints a failed run as text, with its last lines unless the trace has been printed.
func (o *runOptions) show(out io.Writer, f *failed, last []sim.Line) {
	if !o.trace {
		for _, line := range last {
			fmt.Fprintln(out, line)
		}
	}
	fmt.Fprintf(out, "\nseed %d: %s\n", f.Seed, f.Text)
	if f.Trace != "" {
		fmt.Fprintf(out, "trace: %s\nsmaller: lockstep-sim minimize %s\n", f.Trace, f.Trace)
	}
}

// writeTrace runs a Repro and writes its trace to a file.
func writeTrace(name string, c sim.Repro) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("the trace: %w", err)
	}
	_, err = c.WriteTrace(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("the trace %s: %w", name, err)
	}
	return nil
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
