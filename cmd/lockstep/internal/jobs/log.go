package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
)

type logOptions struct {
	selection.Flags
	Follow     bool
	Timestamps bool
	Partial    bool
}

// NewLogCommand is the command log.
func NewLogCommand(globals *cli.Globals) *cobra.Command {
	opts := logOptions{}
	command := &cobra.Command{
		Use:     "log [flags] [ID|NAME]...",
		Aliases: []string{"logs"},
		Short:   "Print the logs of jobs, which are their output",
		Long: `Print the log of a job. For a command this is its output. ` + selection.ArgsHelp + `
Jobs can be selected with flags. ` + selection.Help + `
Several logs are printed one after the other, with a heading before each; with
--follow at the same time, each line with the id of its job.

` + follow.OutputHelp + `

Exit code: 0, however the job ended; 1 if there is no such job; 125 if output is
missing, without --partial: standard error says how the job ended.
With --json, one object per line:
{"event": "log", "job", "serial", "time", "type", "payload"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep log 12
  lockstep log nightly
  lockstep log --partial 12 > output
  lockstep log --follow --timestamps 12
  lockstep log --failed --since 1d`,
		RunE: func(command *cobra.Command, args []string) error {
			return runLog(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "continue until the job has ended")
	command.Flags().BoolVarP(&opts.Timestamps, "timestamps", "t", false, "prefix each line with its local time")
	follow.PartialFlag(command, &opts.Partial)
	registerShown(globals, command, &opts.Flags)
	return command
}

func runLog(ctx context.Context, opts logOptions, globals *cli.Globals, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := shownJobs(ctx, globals, daemon, opts.Flags, args)
	if err != nil {
		return err
	}
	switch {
	case opts.Follow && len(ids) > 1:
		return followLogs(ctx, opts, globals, daemon, ids)
	case opts.Follow && len(ids) == 1:
		view := newLogView(ctx, opts, globals, daemon, globals.Streams, ids[0])
		f := &follow.Follower{Session: daemon, ID: ids[0]}
		if _, err := liveOf(ctx, daemon, ids[0], view, false).Follow(ctx, f, &sync.Mutex{}); err != nil {
			return err
		}
		return view.finish(ctx, daemon)
	}
	var worst error
	for i, id := range ids {
		if len(ids) > 1 && !globals.JSON {
			if i > 0 {
				fmt.Fprintln(globals.Streams.Out)
			}
			fmt.Fprintln(globals.Streams.Out, globals.Palette().Title(fmt.Sprintf("==> job %d <==", id)))
		}
		err := printLog(ctx, opts, globals, daemon, id)
		var incomplete *cli.ExitError
		if err != nil && !errors.As(err, &incomplete) {
			return err
		}
		worst = laterLoss(globals, worst, err)
	}
	return worst
}

// laterLoss prints an earlier error about a log if there is another one, and returns the latest.
func laterLoss(globals *cli.Globals, earlier, err error) error {
	if err == nil {
		return earlier
	}
	if earlier != nil {
		cli.PrintError(globals.Streams.Err, earlier.Error())
	}
	return err
}

// printLog prints the present log of one job. The error says that there is no such job, or that output is missing.
func printLog(ctx context.Context, opts logOptions, globals *cli.Globals, daemon *client.Session, id int64) error {
	rows, err := client.QueryJobs(ctx, daemon, []int64{id}, "status", "oplog")
	if err != nil {
		return err
	}
	var status string
	var logs [][]follow.LogEntry
	if err := client.Scan(rows[0], &status, &logs); err != nil {
		return err
	}
	if status == "" {
		return client.ErrUnknownJob(id)
	}
	view := newLogView(ctx, opts, globals, daemon, globals.Streams, id)
	view.Show(slices.Concat(logs...))
	return view.finish(ctx, daemon)
}

// followLogs follows several jobs at the same time, each line with the id of its job. The error is the worst loss of output.
func followLogs(ctx context.Context, opts logOptions, globals *cli.Globals, daemon *client.Session, ids []int64) error {
	views := map[int64]*logView{}
	for _, id := range ids {
		views[id] = newLogView(ctx, opts, globals, daemon, prefixed(globals.Streams, id), id)
		views[id].Lines.Prefixed = true
	}
	var worst error
	err := followSeveral(ctx, daemon, views, false, nil, nil, func(v *logView, f *follow.Follower, _ string) error {
		err := v.finish(ctx, f.Session)
		var incomplete *cli.ExitError
		if err != nil && !errors.As(err, &incomplete) {
			return err
		}
		worst = laterLoss(globals, worst, err)
		return nil
	})
	if err != nil {
		return err
	}
	return worst
}

// logView prints the log as text or as JSON.
type logView struct {
	follow.Views
	partial bool
}

func newLogView(
	ctx context.Context, opts logOptions, globals *cli.Globals, daemon *client.Session, streams cli.Streams, id int64,
) *logView {
	v := &logView{Views: follow.ViewsOf(ctx, globals, daemon, streams, id), partial: opts.Partial}
	v.Lines.Others, v.Lines.Stamped = true, opts.Timestamps
	return v
}

// Beside is part of oneOfSeveral.
func (v *logView) Beside(showing sync.Locker) { v.AskUnlocked(showing, func() {}) }

// ShowChange is part of follow.LiveView.
func (v *logView) ShowChange(c follow.Change) { v.Show(c.Entries) }

// finish ends the output. If some is missing, it asks for the status of the job and returns both as an error, unless --partial is given.
func (v *logView) finish(ctx context.Context, daemon client.Querier) error {
	v.Finish()
	losses := v.Losses()
	if losses == "" || v.partial {
		return nil
	}
	end, err := follow.EndingOf(ctx, daemon, v.Lines.ID)
	if err != nil {
		return err
	}
	return losses.Error(v.Lines.ID, end.Outcome(v.Lines.ID))
}
