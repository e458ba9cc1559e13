package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

type cancelOptions struct {
	Kill bool
}

func newCancelCommand(globals *globalOptions) *cobra.Command {
	opts := cancelOptions{}
	command := &cobra.Command{
		Use:   "cancel [flags] ID...",
		Short: "Cancel jobs that have not begun, or kill running ones",
		Long: `Cancel jobs. A job that is queued or waits for locks is canceled. One that is
running is not, unless --kill is given.

Exit code: 0 if every job was canceled, 1 otherwise.
With --json: a list of {"id": number, "done": bool, "message": string}`,
		Example: `  lockstep cancel 12 13
  lockstep cancel --kill 14`,
		Args: wants(1, -1, "name at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runCancel(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVar(&opts.Kill, "kill", false, "end the processes of a job that is running")
	return command
}

// cancellation is the daemon's answer to CancelJob, [done, message] (queue.md 4.7).
type cancellation struct {
	ID      int64  `json:"id"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

func runCancel(ctx context.Context, opts cancelOptions, globals *globalOptions, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	results := []cancellation{}
	failed := false
	for _, id := range ids {
		result, err := cancelJob(ctx, daemon, id, opts.Kill)
		if err != nil {
			return err
		}
		results = append(results, result)
		failed = failed || !result.Done
		switch {
		case globals.JSON:
		case result.Done:
			fmt.Fprintf(globals.streams.Out, "job %d: %s\n", id, visible(result.Message))
		default:
			complain(globals.streams.Err, fmt.Sprintf("job %d was not canceled: %s", id, result.Message))
		}
	}
	if globals.JSON {
		if err := printJSON(globals.streams.Out, results); err != nil {
			return err
		}
	}
	if failed {
		return &exitError{code: exitFailure}
	}
	return nil
}

func cancelJob(ctx context.Context, daemon *session, id int64, kill bool) (cancellation, error) {
	result := cancellation{ID: id}
	answer := []any{&result.Done, &result.Message}
	if err := daemon.call(ctx, "CancelJob", []any{id, kill}, &answer); err != nil {
		return result, fmt.Errorf("cancel job %d: %w", id, err)
	}
	return result, nil
}
