package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"lockstep/cmd/internal/term"
)

// options are the flags.
type options struct {
	dir     string
	only    string
	rounds  int
	quick   bool
	out     string
	asJSON  bool
	guard   bool
	cluster bool
}

// run measures and prints. Errors: wrong flags, missing programs, a failed scenario, or a wrapped errRegression.
func (o *options) run(ctx context.Context, out, stderr io.Writer) error {
	if o.rounds < 1 || o.rounds > 1000 {
		return fmt.Errorf("--rounds %d: want 1 to 1000", o.rounds)
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	if o.guard && (o.only != "" || o.cluster) {
		return errors.New("--guard chooses its measurements; omit --only and --cluster")
	}
	if o.guard {
		only = guardPattern()
	}
	chosen := chooseScenarios(only, o.kinds())
	if len(chosen) == 0 {
		return fmt.Errorf("--only %s matches no measurement; the names are those of --out, such as Submit/clients=1", o.only)
	}
	b, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	defer b.cleanUp()
	if b.machine.Pending, err = flush(b.root); err != nil {
		return err
	}
	b.bar = term.StartSteps(stderr, int64(len(chosen)*b.rounds))
	err = b.measure(chosen)
	b.bar.Stop()
	if err != nil {
		return err
	}
	return o.report(out, b)
}

// kinds are the kinds of scenarios to choose from.
func (o *options) kinds() map[bool]bool {
	return map[bool]bool{false: !o.cluster, true: o.cluster || o.guard}
}

// prepare looks for the programs to measure, makes the temporary directory and describes the machine.
func (o *options) prepare(ctx context.Context) (*bench, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, self: self, programs: filepath.Dir(self), rounds: o.rounds, sizes: fullSizes,
		samples: map[string][]sample{}, notRun: map[string]string{}}
	if o.quick || o.guard {
		b.sizes = quickSizes
	}
	for _, program := range []string{"lockstepd", "lockstep-job", "lockstep"} {
		if _, err := os.Stat(b.program(program)); err != nil {
			return nil, fmt.Errorf("%w; run: make build", err)
		}
	}
	if err := os.MkdirAll(o.dir, 0o750); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	parent, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if b.root, err = os.MkdirTemp(parent, "b"); err != nil { // the paths of sockets are limited
		return nil, fmt.Errorf("--dir: %w", err)
	}
	if b.machine, err = describe(b.root); err != nil {
		b.cleanUp()
		return nil, err
	}
	return b, nil
}

func (b *bench) measure(selected []scenario) error {
	for _, s := range selected {
		b.bar.SetLabel(s.name)
		err := s.run(b)
		if b.ctx.Err() != nil {
			return fmt.Errorf("%s: interrupted", s.name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

func (o *options) report(out io.Writer, b *bench) error {
	rows := makeRows(b.sizes, b.samples)
	if o.out != "" {
		file, err := os.Create(o.out)
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
		writeBenchFormat(file, b.machine, b.sizes, b.samples)
		if err := file.Close(); err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	if o.asJSON {
		if err := writeJSON(out, b.machine, rows); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(out, "%s\n%s\n", b.machine, renderTable(rows))
		for _, name := range slices.Sorted(maps.Keys(b.notRun)) {
			fmt.Fprintf(out, "NOT RUN: %s: %s\n", name, b.notRun[name])
		}
	}
	if o.guard {
		return checkFloors(rows, floors, b.notRun)
	}
	return nil
}

// cleanUp ends the remaining daemons and their jobs, and removes the files.
func (b *bench) cleanUp() {
	for _, d := range b.daemons {
		d.kill()
		d.endJobs()
	}
	_ = os.RemoveAll(b.root)
	_, _ = flush(filepath.Dir(b.root)) // so that the removal does not slow down the next run
}

// waitMax bounds every wait, generously.
const waitMax = 3 * time.Minute
