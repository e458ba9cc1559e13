package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// NewDrainCommand is the command drain.
func NewDrainCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "drain on|off|status",
		Short: "Make the queue refuse submissions, or accept them again",
		Long: `With "on" the queue refuses submissions; existing jobs start and run as before. With
"off" it accepts submissions again. The state survives restarts of the daemon.
"status" shows it.

Exit code: 0, whether or not the queue is drained or was before.
With --json: {"drained": bool}`,
		Example: `  lockstep drain on
  lockstep drain status --json | jq .drained`,
		Args:      cli.WantArgs(1, 1, "say one of on, off and status"),
		ValidArgs: []string{"on", "off", "status"},
		RunE: func(command *cobra.Command, args []string) error {
			return runDrain(command.Context(), globals, args[0])
		},
	}
}

func runDrain(ctx context.Context, globals *cli.Globals, what string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	drained := what == "on"
	switch what {
	case "on", "off":
		if err := daemon.Call(ctx, "SetDrainFlag", []any{drained}, nil); err != nil {
			return err
		}
	case "status":
		var err error
		if drained, err = isDrained(ctx, daemon); err != nil {
			return err
		}
	default:
		return cli.Usagef("drain on, off or status, not %q", what)
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, map[string]bool{"drained": drained})
	}
	text := "the queue accepts jobs"
	if drained {
		text = "the queue is drained: submissions are refused; existing jobs run"
	}
	fmt.Fprintln(globals.Streams.Out, text)
	return nil
}

func isDrained(ctx context.Context, daemon client.Querier) (bool, error) {
	var values []*bool
	if err := daemon.Query(ctx, "QueryConfigValues", []any{[]string{"drain_flag"}}, &values); err != nil {
		return false, err
	}
	if len(values) != 1 || values[0] == nil {
		return false, errors.New("the daemon's answer does not state whether the queue is drained")
	}
	return *values[0], nil
}
