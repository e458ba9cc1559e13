// Command lockstep-sim runs the daemon's actor tree in a simulated world, one run per seed, and
// checks the guarantees of lockstep in each run.
//
// Exit codes: 0 all runs were good, 1 a checker has failed, 2 wrong usage, 3 a run
// differs from its trace.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/buildinfo"
	"lockstep/sim"
)

const (
	exitBroken  = 1
	exitUsage   = 2
	exitDiffers = 3
)

// errBroken means that a checker has failed; the failure is printed already.
var errBroken = errors.New("a checker has failed")

func main() {
	root := &cobra.Command{
		Use:           "lockstep-sim",
		Short:         "Run lockstep's daemon in a simulated world and check its guarantees",
		Version:       buildinfo.Read().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newRunCommand(), newReplayCommand(), newMinimizeCommand(), newCompareCommand(), newLoadCommand(), newYearCommand())
	command, err := root.ExecuteC()
	switch {
	case err == nil:
	case errors.Is(err, errBroken):
		os.Exit(exitBroken)
	case errors.Is(err, errDiffers):
		os.Exit(exitDiffers)
	case errors.Is(err, sim.ErrGood):
		fmt.Fprintf(os.Stderr, "lockstep-sim: %v\n", err)
		os.Exit(exitUsage)
	default:
		fmt.Fprintf(os.Stderr, "lockstep-sim: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		os.Exit(exitUsage)
	}
}
