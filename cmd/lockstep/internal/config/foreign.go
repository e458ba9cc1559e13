package config

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/core/answer"
	"lockstep/core/paths"
)

// foreignHelp describes the state that adopt and discard end.
const foreignHelp = `While config.data has content that another program has written, lockstepd refuses all
changes of the configuration with an error; "lockstep status" says so. A touch, chmod
or chown of the file is no change.`

// foreignJSON describes the JSON output.
const foreignJSON = `Exit code: 0, also if no program has changed config.data; 1 if the daemon refuses.
With --json: {"foreign": bool, "serial_no": number}; without foreign content nothing
was done.`

func newAdoptCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "adopt",
		Short: "Take over a config.data that another program has written",
		Long: `Make the content of config.data the configuration, after another program has changed
the file while lockstepd runs. Changes that lockstepd has answered and that the file
lacks are set aside in a file config.journal.unused-NUMBER; "lockstep config history"
lists them.

` + foreignHelp + `

` + foreignJSON,
		Example: `  lockstep config check --file /var/lib/lockstep/config.data
  lockstep config adopt`,
		Args: cli.WantArgs(0, 0, "config adopt takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runResolve(command.Context(), globals, "LockstepConfigAdopt",
				"The content of "+paths.ConfigPath+" is now the configuration: serial number %d.\n")
		},
	}
}

func newDiscardCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "discard",
		Short: "Replace a config.data that another program has written",
		Long: `Write the configuration of lockstepd to config.data, after another program has changed
the file while lockstepd runs. What that program has written is lost: copy the file
first if it has a value.

` + foreignHelp + `

` + foreignJSON,
		Example: `  cp /var/lib/lockstep/config.data /root/config.data.foreign
  lockstep config discard`,
		Args: cli.WantArgs(0, 0, "config discard takes no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runResolve(command.Context(), globals, "LockstepConfigDiscard",
				paths.ConfigPath+" has the configuration of lockstepd again: serial number %d.\n")
		},
	}
}

// runResolve makes a call that ends the state of foreign content. done is the text about the serial number.
func runResolve(ctx context.Context, globals *cli.Globals, method, done string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	resolved := answer.ConfigResolved{}
	if err := daemon.Call(ctx, method, []any{}, &resolved); err != nil {
		return err
	}
	out := globals.Streams.Out
	switch {
	case globals.JSON:
		return cli.PrintJSON(out, resolved)
	case !resolved.Foreign:
		fmt.Fprintf(out, "No other program has changed %s: nothing was done. The configuration has serial number %d.\n",
			paths.ConfigPath, resolved.Serial)
	default:
		fmt.Fprintf(out, done, resolved.Serial)
	}
	return nil
}
