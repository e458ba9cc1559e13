package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lockstep/sim"
)

// errDiffers says that a run is not what its trace says; what there is to say was said.
var errDiffers = errors.New("the run differs from its trace")

// contextLines is how many lines of a trace are shown before the one that differs.
const contextLines = 20

func newReplayCommand() *cobra.Command {
	show := false
	c := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Run again what a trace tells of, and compare",
		Long: `Run again what a trace tells of, and compare line by line. The head of the trace
says which run. If it was made by another version of lockstep, the runs part
somewhere: the first line that differs is shown, with what came before.

Exit codes: 0 the same, and good; 1 the same, and a checker fails; 3 it differs.`,
		Example: `  lockstep-sim replay seed-17.trace
  lockstep-sim replay seed-17.trace --show | less`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			return replay(file, c.OutOrStdout(), show)
		},
	}
	c.Flags().BoolVar(&show, "show", false, "print everything that happens")
	return c
}

func replay(file io.Reader, out io.Writer, show bool) error {
	was := bufio.NewScanner(file)
	of, err := sim.ReadCase(was)
	if err != nil {
		return err
	}
	c := comparison{was: was, out: out, show: show}
	r, err := of.Run(c.line)
	if err != nil {
		return err
	}
	if !c.differs && was.Scan() {
		c.different("(nothing more)", was.Text())
	}
	switch {
	case was.Err() != nil:
		return was.Err()
	case c.differs:
		return errDiffers
	case r.Err != nil:
		fmt.Fprintf(out, "the same %d lines; seed %d: %v\n", c.number, of.Seed, r.Err)
		return errBroken
	default:
		fmt.Fprintf(out, "the same %d lines: good\n", c.number)
		return nil
	}
}

// comparison holds a run against its trace.
type comparison struct {
	was     *bufio.Scanner
	out     io.Writer
	show    bool
	number  int
	before  []string
	differs bool
}

func (c *comparison) line(l sim.Line) {
	if c.differs {
		return
	}
	c.number++
	is := l.String()
	if c.show {
		fmt.Fprintln(c.out, is)
	}
	switch {
	case !c.was.Scan():
		c.different(is, "(nothing more)")
	case c.was.Text() != is:
		c.different(is, c.was.Text())
	default:
		if c.before = append(c.before, is); len(c.before) > contextLines {
			c.before = c.before[1:]
		}
	}
}

func (c *comparison) different(is, was string) {
	c.differs = true
	if !c.show {
		for _, line := range c.before {
			fmt.Fprintln(c.out, " ", line)
		}
	}
	fmt.Fprintf(c.out, "- %s\n+ %s\nline %d differs: - is the trace, + is this run\n", was, is, c.number)
}
