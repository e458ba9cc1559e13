package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/selection"
)

type cancelOptions struct {
	Kill bool

	chosen selection.ChangeFlags
}

// NewCancelCommand is the command cancel.
func NewCancelCommand(globals *cli.Globals) *cobra.Command {
	opts := cancelOptions{}
	command := &cobra.Command{
		Use:   "cancel [flags] [ID|NAME]...",
		Short: "Cancel jobs that have not begun, or kill running jobs",
		Long: `Cancel jobs, and print the result of each, in their order:
  a queued job is dequeued, and never runs;
  a job that waits before its next opcode stops there;
  a running job is refused and continues, unless --kill is given: its command gets
    SIGTERM, after 10 seconds SIGKILL, and the job fails. The answer comes after
    the end of the job, for several jobs after the end of all.

` + selection.ChangeHelp + `

Exit code: 0 if every job was canceled, or ended by --kill; 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep cancel 12 13
  lockstep cancel --kill 14
  lockstep cancel nightly
  lockstep cancel --status queued --name 'backup-*'`,
		RunE: func(command *cobra.Command, args []string) error {
			return runCancel(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVar(&opts.Kill, "kill", false, "kill the command of a running job")
	opts.register(globals, command)
	return command
}

func (o *cancelOptions) register(globals *cli.Globals, command *cobra.Command) {
	o.chosen.Register(globals, command, selection.Unfinished)
	command.Args = func(_ *cobra.Command, args []string) error { return o.chosen.CheckGiven(args) }
}

// NewKillCommand is the command kill.
func NewKillCommand(globals *cli.Globals) *cobra.Command {
	opts := cancelOptions{Kill: true}
	command := &cobra.Command{
		Use:   "kill [flags] [ID|NAME]...",
		Short: "Cancel jobs, and end those that run (cancel --kill)",
		Long: `The same as "lockstep cancel --kill": queued and waiting jobs are canceled, and the
command of a running job gets SIGTERM, after 10 seconds SIGKILL.

` + selection.ChangeHelp + `

Exit code: 0 if every job was canceled or ended; 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep kill 14`,
		RunE: func(command *cobra.Command, args []string) error {
			return runCancel(command.Context(), opts, globals, args)
		},
	}
	opts.register(globals, command)
	return command
}

func runCancel(ctx context.Context, opts cancelOptions, globals *cli.Globals, args []string) error {
	cancel := perJobAction{
		verb:    "cancel",
		scope:   selection.Unfinished,
		doing:   "canceling",
		refused: "was not canceled",
		call: func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
			return Cancel(ctx, daemon, id, opts.Kill)
		},
		remark: func(id int64, s jobState) string {
			switch {
			case s.status == client.StatusRunning && !opts.Kill:
				return fmt.Sprintf(`"lockstep cancel --kill %d" would end it`, id)
			case s.explainsRefusal():
				return s.String()
			}
			return "" // the daemon's text is complete
		},
		done: "canceled",
	}
	cancel.order = &jobOrder{kind: "cancel"}
	if opts.Kill {
		cancel.order.kind = "kill"
		cancel.done, cancel.verb = "ended", "cancel or kill"
	}
	return cancel.forAll(ctx, globals, &opts.chosen, args)
}

// Cancel cancels one job; with kill it also ends a running job.
func Cancel(ctx context.Context, daemon *client.Session, id int64, kill bool) (Answer, error) {
	answer, err := callForPair(ctx, daemon, "CancelJob", id, kill)
	if err != nil {
		return answer, fmt.Errorf("cancel job %d: %w", id, err)
	}
	return answer, nil
}
