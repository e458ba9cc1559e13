package submit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
)

// exitTimeout is the exit code of wait if its own time is up, as that of timeout(1).
const exitTimeout = 124

// NewWaitCommand is the command wait.
func NewWaitCommand(globals *cli.Globals) *cobra.Command {
	timeout := time.Duration(0)
	command := &cobra.Command{
		Use:   "wait [--timeout DURATION] ID|NAME...",
		Short: "Wait until jobs have ended",
		Long: `Wait until all these jobs have ended. ` + selection.ArgsHelp + `

Exit code: 0 if all jobs succeeded; otherwise the highest exit status of their
commands: 124 for a command that --timeout of run ended, 128 + n for signal n, 1 for
a job that failed without a status or was canceled. 124 if --timeout of wait is over
first; then the jobs continue. 1 at once in a command of a job for which these jobs
wait, because the wait would never end.
With --json, one object per line, as jobs end:
{"event": "end", "job", "status", "exit_code", "error"}`,
		Example: `  lockstep wait 12 13
  lockstep wait --timeout 1h nightly`,
		Args: cli.WantArgs(1, -1, "name at least one job, by its id or its name"),
		RunE: func(command *cobra.Command, args []string) error {
			return runWait(command.Context(), globals, timeout, args)
		},
		ValidArgsFunction: completion.Jobs(globals, "queued", "waiting", "canceling", "running"),
	}
	command.Flags().Var(term.DurationFlag{Value: &timeout}, "timeout", "stop waiting after `DURATION`, like 90s or 2h (default never)")
	completion.Flag(command, "timeout", completion.Nothing)
	return command
}

func runWait(ctx context.Context, globals *cli.Globals, timeout time.Duration, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := selection.Newest(ctx, daemon, args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errOver := fmt.Errorf("the time is over")
	if timeout > 0 {
		over := globals.Streams.After(timeout)
		go func() {
			select {
			case <-over:
				cancel(errOver)
			case <-ctx.Done():
			}
		}()
	}
	if err := daemon.Await(ctx, ids); err != nil {
		return err
	}
	jobs := make([]submittedJob, len(ids))
	for i, id := range ids {
		jobs[i] = submittedJob{index: i, id: id}
	}
	var failed []submittedJob
	statuses := map[int64]string{}
	display := startWait(globals, len(jobs))
	err = waitAll(ctx, daemon, jobs, display.poll, func(job submittedJob, status string) {
		statuses[job.id] = status
		if status != client.StatusSuccess {
			failed = append(failed, job)
		} else if globals.JSON {
			zero := 0
			ended := follow.Event{Event: "end", Job: job.id, Status: status, ExitCode: &zero}
			_ = follow.PrintEvent(globals.Streams.Out, ended) // Run checks the stream's errors
		}
	}, display.show)
	display.stop()
	switch {
	case errors.Is(context.Cause(ctx), errOver):
		return &cli.ExitError{
			Code: exitTimeout,
			Err: fmt.Errorf("%d of %s did not end in %s",
				len(jobs)-len(statuses), term.Count(len(jobs), "job"), term.Span(timeout)),
		}
	case err != nil:
		return err
	}
	return reportFailed(ctx, globals, daemon, failed, statuses)
}

// reportFailed prints how jobs have failed, and returns the error with the highest exit code; nil without failed jobs.
func reportFailed(
	ctx context.Context, globals *cli.Globals, daemon *client.Session,
	failed []submittedJob, statuses map[int64]string,
) error {
	highest := 0
	for _, job := range failed {
		code, text := cli.ExitFailure, client.ErrUnknownJob(job.id).Error()
		if statuses[job.id] != statusVanished {
			end, err := (&follow.Follower{Session: daemon, ID: job.id}).Ending(ctx)
			if err != nil {
				return err
			}
			text = end.Sentence(job.id)
			if end.Status == client.StatusError {
				code = end.Failure.ExitCode()
			}
		}
		highest = max(highest, code)
		if !globals.JSON {
			cli.PrintError(globals.Streams.Err, text)
			continue
		}
		ended := follow.Event{Event: "end", Job: job.id, Status: statuses[job.id], ExitCode: &code, Error: text}
		if err := follow.PrintEvent(globals.Streams.Out, ended); err != nil {
			return err
		}
	}
	return exitWith(highest, nil)
}
