// Command lockstep-sim runs the daemon's actor tree in a simulated world, one
// run for each seed, and holds what happens against what lockstep promises.
//
// Exit codes: 0 all runs were good, 1 a checker has failed, 2 wrong usage.
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const (
	exitBroken = 1
	exitUsage  = 2
)

// errBroken says that a checker has failed; what there is to say was said.
var errBroken = errors.New("a checker has failed")

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // a world is small, and there are thousands
	}
	root := &cobra.Command{
		Use:           "lockstep-sim",
		Short:         "Run lockstep's daemon in a simulated world and check what it promises",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.AddCommand(newRunCommand(), newCompareCommand())
	command, err := root.ExecuteC()
	switch {
	case err == nil:
	case errors.Is(err, errBroken):
		os.Exit(exitBroken)
	default:
		fmt.Fprintf(os.Stderr, "lockstep-sim: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		os.Exit(exitUsage)
	}
}
