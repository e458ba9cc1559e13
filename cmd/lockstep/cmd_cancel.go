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
		Long: `Cancel jobs, one after the other, and say of each what has happened:
  a queued job is dequeued, and never runs;
  a job that waits for its next opcode to begin stops there;
  a running job is refused and goes on, unless --kill is given. That ends what
    runs with SIGTERM, after 10 seconds with SIGKILL, and the job fails. The
    answer comes when it has ended, so it may take that long.

Exit code: 0 if every job was canceled, or ended by --kill; 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep cancel 12 13
  lockstep cancel --kill 14`,
		Args: wants(1, -1, "name at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runCancel(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVar(&opts.Kill, "kill", false, "end what runs of a job that is running")
	return command
}

func runCancel(ctx context.Context, opts cancelOptions, globals *globalOptions, args []string) error {
	cancel := wish{
		doing:   "canceling",
		refused: "was not canceled",
		ask: func(ctx context.Context, daemon *session, id int64) (jobAnswer, error) {
			return cancelJob(ctx, daemon, id, opts.Kill)
		},
		remark: func(id int64, s standing) string {
			switch {
			case s.status == statusRunning && !opts.Kill:
				return fmt.Sprintf(`"lockstep cancel --kill %d" would end it`, id)
			case s.settled():
				return s.String()
			}
			return "" // the daemon's text says it all
		},
		done: "canceled",
	}
	if opts.Kill {
		cancel.done = "ended"
	}
	return cancel.forAll(ctx, globals, args)
}

func cancelJob(ctx context.Context, daemon *session, id int64, kill bool) (jobAnswer, error) {
	answer, err := askPair(ctx, daemon, "CancelJob", id, kill)
	if err != nil {
		return answer, fmt.Errorf("cancel job %d: %w", id, err)
	}
	return answer, nil
}
