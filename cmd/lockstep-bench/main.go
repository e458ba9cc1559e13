// Command lockstep-bench measures a real daemon and, in the same run, the limits of the
// machine, and prints one table.
//
// It starts daemons in a temporary directory and removes all of it at the end.
//
// Exit codes: 0 measured, 1 a ratio is worse than its floor, 2 wrong usage or a measurement
// that failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/buildinfo"
)

const (
	exitRegression = 1
	exitUsage      = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	command, err := newCommand().ExecuteContextC(ctx)
	switch {
	case err == nil:
	case errors.Is(err, errRegression):
		fmt.Fprintf(os.Stderr, "lockstep-bench: %v\n", err)
		os.Exit(exitRegression)
	default:
		fmt.Fprintf(os.Stderr, "lockstep-bench: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
		os.Exit(exitUsage)
	}
}

func newCommand() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "lockstep-bench",
		Short: "Measure lockstep beside the limits of this machine",
		Long: `Measure lockstep beside the limits of this machine.

It starts real daemons in a temporary directory, which it removes at the end. Each
round measures lockstep and the bare machine one after the other in the same
directory, so that a ratio compares two values of the same minute. Compare only
figures of one run: machines, disks and hours differ.

With --cluster it measures clusters of three and five nodes on this machine instead, beside one node
and two groups of as many nodes that have only the consensus log: raft that applies nothing, and raft
that writes each entry to a file by rename without a sync.

lockstepd, lockstep-job and, for clusters, lockstep must be in the directory of this program.`,
		Example: `  lockstep-bench
  lockstep-bench --only 'Submit|Jobs' --rounds 9
  lockstep-bench --dir /srv/disk --out new.txt && benchstat old.txt new.txt
  lockstep-bench --cluster
  lockstep-bench --guard`,
		Args:          cobra.NoArgs,
		Version:       buildinfo.Read().String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE:          func(c *cobra.Command, _ []string) error { return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr()) },
	}
	flags := c.Flags()
	flags.StringVar(&o.dir, "dir", "var", "`directory` on the disk to measure; created if missing")
	flags.StringVar(&o.only, "only", "", "measure only names that match the `regexp`; the names are those of --out")
	flags.IntVar(&o.rounds, "rounds", 6, "`number` of rounds, 1 to 1000; benchstat wants 6")
	flags.BoolVar(&o.quick, "quick", false, "small rounds: seconds instead of minutes, and rough figures")
	flags.StringVar(&o.out, "out", "", "also write a `file` in the format of Go's benchmarks, for benchstat")
	flags.BoolVar(&o.asJSON, "json", false, "print the table as JSON, with every sample")
	flags.BoolVar(&o.cluster, "cluster", false, "measure clusters beside one node and beside raft alone")
	flags.BoolVar(&o.guard, "guard", false, "fail if a ratio to the machine's limit is far worse than measured before (implies --quick)")
	c.AddCommand(newEchoCommand(), newReferenceCommand())
	c.CompletionOptions.DisableDefaultCmd = true
	return c
}
