package config

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
)

func newCheckCommand(globals *cli.Globals) *cobra.Command {
	from := source{globals: globals}
	command := &cobra.Command{
		Use:   "check",
		Short: "Check the configuration of the cluster",
		Long: `Check the configuration of the cluster. Errors are references to objects that do not
exist and similar faults, with which Ganeti's daemon does not start. Warnings are what
Ganeti's jobs write to their logs, for example duplicate addresses; they stop no job.

Exit code: 0 without errors and warnings, 1 with some.
With --json: {"serial_no": number, "errors": [string], "warnings": [string]}`,
		Example: `  lockstep config check
  lockstep config check --file /var/lib/ganeti/config.data`,
		Args: cli.WantArgs(0, 0, "config check takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runCheck(command.Context(), &from)
		},
	}
	from.addFlag(command, "check the config.data at `PATH`; no daemon is asked")
	return command
}

func runCheck(ctx context.Context, from *source) error {
	check, err := from.check(ctx)
	if err != nil {
		return err
	}
	check.Errors, check.Warnings = cli.OrEmpty(check.Errors), cli.OrEmpty(check.Warnings)
	out := from.globals.Streams.Out
	if from.globals.JSON {
		if err := cli.PrintJSON(out, check); err != nil {
			return err
		}
	} else {
		for _, text := range check.Errors {
			fmt.Fprintf(out, "error: %s\n", term.Visible(text))
		}
		for _, text := range check.Warnings {
			fmt.Fprintf(out, "warning: %s\n", term.Visible(text))
		}
		fmt.Fprintf(out, "serial number %d: %s, %s\n",
			check.Serial, term.Count(len(check.Errors), "error"), term.Count(len(check.Warnings), "warning"))
	}
	if len(check.Errors)+len(check.Warnings) > 0 {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}
