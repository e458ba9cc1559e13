package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
)

// NewWatchCommand is the command watch.
func NewWatchCommand(globals *cli.Globals) *cobra.Command {
	opts := watchOptions{}
	command := &cobra.Command{
		Use:   "watch [flags] [ID|NAME]...",
		Short: "Follow jobs' status and log until they end",
		Long: `Follow a job: print each change of its status and each line of its log, until
it ends. Ctrl-C stops watching; the job continues.

` + selection.ArgsHelp + ` Jobs can be selected with flags. ` + selection.Help + `
Several jobs are followed at the same time; each line of a log begins with the id of
its job. On a terminal lines below the log have the progress of the jobs' commands.

Watching continues over a restart of the daemon.

Standard error of a command goes to standard error, all other text to standard
output. A watch delays no command: what it does not take in time is missing, unless
the job keeps its output. "lockstep log --help" says more.

Exit code: that of the command, as of run, of several jobs the highest: 0 if the job
succeeded, 124 for a command that --timeout of run ended, 128 + n for signal n, 1 for a
job that failed without a status or was canceled; 125 if output is missing, without
--partial.
With --json, one object per line:
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"},
{"event": "end", "job", "status", "exit_code", "error", "missing", "incomplete"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep watch 12
  lockstep watch 12 13
  lockstep watch --partial 12 | grep -i error
  lockstep watch --status queued,running --name 'backup-*'
  lockstep watch --json 12 | jq .status`,
		RunE: func(command *cobra.Command, args []string) error {
			return runWatch(command.Context(), opts, globals, args)
		},
	}
	follow.PartialFlag(command, &opts.Partial)
	registerShown(globals, command, &opts.Flags)
	return command
}

type watchOptions struct {
	selection.Flags
	Watching
}

// Watching is how jobs are watched.
type Watching struct {
	Partial bool // missing output does not change the exit code
	Follows bool // this client has submitted the jobs, and their commands wait until their output is taken
}

func runWatch(ctx context.Context, opts watchOptions, globals *cli.Globals, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := shownJobs(ctx, globals, daemon, opts.Flags, args)
	if err != nil {
		return err
	}
	return Watch(ctx, globals, daemon, ids, opts.Watching)
}

// Watch shows the changes of jobs and their output until they have ended, at most WatchedMax. The error has the highest exit code of a job.
func Watch(ctx context.Context, globals *cli.Globals, daemon *client.Session, ids []int64, how Watching) error {
	switch len(ids) {
	case 0:
		fmt.Fprintln(globals.Streams.Err, "no jobs")
		return nil
	case 1:
		w := newWatched(ctx, globals, daemon, globals.Streams, ids[0])
		f := &follow.Follower{Session: daemon, ID: ids[0]}
		live := liveOf(ctx, daemon, ids[0], w, how.Follows)
		if w.line.On {
			asking, stop := context.WithCancel(ctx)
			defer stop()
			live.Ask = func() <-chan []answer.ListedJob { return follow.AskProgress(asking, daemon, ids) }
			live.ShowProgress = func(jobs []answer.ListedJob) { w.line.Show(jobs, &w.Lines, "") }
		}
		status, err := live.Follow(ctx, f, &sync.Mutex{})
		w.line.Clear()
		if err != nil {
			return err
		}
		return w.end(ctx, how, f, status)
	}
	return watchSeveral(ctx, globals, daemon, ids, how)
}

func watchSeveral(ctx context.Context, globals *cli.Globals, daemon *client.Session, ids []int64, how Watching) error {
	all := map[int64]*watched{}
	line := newProgressLine(globals)
	for _, id := range ids {
		all[id] = newWatched(ctx, globals, daemon, prefixed(globals.Streams, id), id)
		all[id].Lines.Prefixed = true
		all[id].line = line
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	var said <-chan []answer.ListedJob
	if line.On {
		said = follow.AskProgress(asking, daemon, ids)
	}
	show := func(jobs []answer.ListedJob) { line.Show(jobs, &follow.JobOutput{}, "") }
	code := 0
	err := followSeveral(ctx, daemon, all, how.Follows, said, show, func(w *watched, f *follow.Follower, status string) error {
		line.Clear()
		err := w.end(ctx, how, f, status)
		if err == nil {
			return nil
		}
		var exit *cli.ExitError
		if !errors.As(err, &exit) {
			exit = &cli.ExitError{Code: cli.ExitFailure, Err: err}
		}
		if exit.Err != nil {
			cli.PrintError(globals.Streams.Err, exit.Err.Error())
		}
		code = max(code, exit.Code)
		return nil
	})
	line.Clear()
	if err != nil || code == 0 {
		return err
	}
	return &cli.ExitError{Code: code}
}

// watched is a job that `watch` follows: the changes of its status, and its output.
type watched struct {
	follow.Views
	palette term.Palette
	status  io.Writer // changes of the status, as text
	last    follow.Change
	line    *follow.ProgressLine // shared by several jobs
}

func newProgressLine(globals *cli.Globals) *follow.ProgressLine {
	streams := globals.Streams
	return &follow.ProgressLine{StatusLine: term.StatusLine{Out: streams.Err, On: streams.OutTerminal && streams.ErrTerminal && !globals.JSON},
		Width: streams.Width, Now: streams.Now}
}

func newWatched(ctx context.Context, globals *cli.Globals, daemon *client.Session, streams cli.Streams, id int64) *watched {
	w := &watched{Views: follow.ViewsOf(ctx, globals, daemon, streams, id), palette: globals.Palette(), status: globals.Streams.Out,
		line: newProgressLine(globals)}
	w.Lines.Others, w.Lines.Mixed = true, true
	return w
}

// Beside is part of oneOfSeveral.
func (w *watched) Beside(showing sync.Locker) { w.AskUnlocked(showing, w.line.Clear) }

// ShowChange is part of follow.LiveView.
func (w *watched) ShowChange(c follow.Change) {
	if w.JSON {
		w.Events.Show(c)
		return
	}
	w.line.Clear()
	// Log entries precede a final status and follow any other status.
	if !client.Final(c.Status) {
		w.showStatus(c)
	}
	w.Show(c.Entries)
	if c.Final {
		w.showStatus(c)
	}
}

// ShowPiece is part of follow.LiveView.
func (w *watched) ShowPiece(p follow.Piece) {
	w.line.Clear()
	w.Views.ShowPiece(p)
}

func (w *watched) showStatus(c follow.Change) {
	if follow.SameProgress(w.last, c) {
		return
	}
	w.last = c
	text := fmt.Sprintf("job %d: %s", w.Lines.ID, cli.StatusText(w.palette, c.Status))
	if at := follow.CurrentOpcode(c.OpStatus); at > 0 && !client.Final(c.Status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.OpStatus))
	}
	w.Lines.EndLine()
	fmt.Fprintln(w.status, text)
}

// end reports the end of the job and returns the error with the exit code; nil: the job has succeeded and no output is missing.
func (w *watched) end(ctx context.Context, how Watching, f *follow.Follower, status string) error {
	w.Finish()
	code, text, err := w.outcome(ctx, how, f, status)
	if err != nil {
		return err
	}
	if w.JSON {
		before := w.Losses()
		w.Events.End(status, &code, text)
		if w.Losses() != before { // the line of the end itself is missing
			if code, text, err = w.outcome(ctx, how, f, status); err != nil {
				return err
			}
		}
	}
	switch {
	case code == 0:
		return nil
	case w.JSON && code != follow.ExitIncomplete:
		return &cli.ExitError{Code: code}
	}
	return &cli.ExitError{Code: code, Err: errors.New(text)}
}

// outcome is the exit code of a job, with a description of its end if it did not succeed or output is missing that must not be.
func (w *watched) outcome(ctx context.Context, how Watching, f *follow.Follower, status string) (code int, text string, err error) {
	losses := w.Losses()
	lost := losses != "" && !how.Partial
	if status == client.StatusSuccess && !lost {
		return 0, "", nil
	}
	end, err := f.Ending(ctx)
	if err != nil {
		return 0, "", err
	}
	if lost {
		return follow.ExitIncomplete, losses.Error(f.ID, end.Outcome(f.ID)).Error(), nil
	}
	code, _ = end.Exit(f.ID)
	return code, end.Outcome(f.ID), nil
}
