package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/cmd/lockstep/internal/selection"
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
its job.

Watching continues over a restart of the daemon.

Standard error of a command goes to standard error, all other text to standard
output. "lockstep log --help" describes missing lines.

Exit code: 0 if the job succeeded, 1 otherwise; 125 if output is missing, without
--partial.
With --json, one object per line:
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"},
{"event": "end", "job", "status", "error", "missing", "incomplete"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep watch 12
  lockstep watch 12 13
  lockstep watch --status queued,running --name 'backup-*'
  lockstep watch --json 12 | jq .status`,
		RunE: func(command *cobra.Command, args []string) error {
			return runWatch(command.Context(), opts, globals, args)
		},
	}
	follow.PartialFlag(command, &opts.partial)
	registerShown(globals, command, &opts.Flags)
	return command
}

type watchOptions struct {
	selection.Flags
	partial bool
}

func runWatch(ctx context.Context, opts watchOptions, globals *cli.Globals, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := shownJobs(ctx, globals, daemon, opts.Flags, args)
	if err != nil {
		return err
	}
	switch len(ids) {
	case 0:
		fmt.Fprintln(globals.Streams.Err, "no jobs")
		return nil
	case 1:
		w := newWatched(globals, globals.Streams, ids[0])
		f := &follow.Follower{Session: daemon, ID: ids[0]}
		status, err := f.Follow(ctx, w.show)
		if err != nil {
			return err
		}
		return w.end(ctx, opts, f, status)
	}
	watched := map[int64]*watched{}
	for _, id := range ids {
		watched[id] = newWatched(globals, prefixed(globals.Streams, id), id)
	}
	code := 0
	err = followSeveral(ctx, daemon, ids,
		func(id int64, c follow.Change) { watched[id].show(c) },
		func(f *follow.Follower, status string) error {
			err := watched[f.ID].end(ctx, opts, f, status)
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
	if err != nil || code == 0 {
		return err
	}
	return &cli.ExitError{Code: code}
}

// watched is a job that `watch` follows, as text or, with json, as events; both views get each change.
type watched struct {
	json   bool
	events *follow.EventView
	lines  *watchView
}

func newWatched(globals *cli.Globals, streams cli.Streams, id int64) *watched {
	return &watched{json: globals.JSON, events: &follow.EventView{Out: globals.Streams.Out, ID: id},
		lines: &watchView{palette: globals.Palette(), id: id, status: globals.Streams.Out,
			output: follow.JobOutput{ID: id, Streams: streams, Others: true, Mixed: true}}}
}

func (w *watched) show(c follow.Change) {
	if w.json {
		w.events.Show(c)
		return
	}
	w.lines.show(c)
}

// losses are what is missing of the view that is shown.
func (w *watched) losses() follow.Losses {
	if w.json {
		return w.events.Losses()
	}
	return w.lines.output.Losses()
}

// end reports the end of the job and returns the error with the exit code; nil: the job has succeeded and no output is missing.
func (w *watched) end(ctx context.Context, opts watchOptions, f *follow.Follower, status string) error {
	w.lines.output.Finish()
	text, lost, err := w.outcome(ctx, opts, f, status)
	if err != nil {
		return err
	}
	if w.json {
		before := w.losses()
		w.events.End(status, nil, text)
		if w.losses() != before { // the line of the end itself is missing
			if text, lost, err = w.outcome(ctx, opts, f, status); err != nil {
				return err
			}
		}
	}
	switch {
	case lost:
		return &cli.ExitError{Code: follow.ExitIncomplete, Err: errors.New(text)}
	case status == client.StatusSuccess:
		return nil
	case w.json:
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return errors.New(text)
}

// outcome describes the end of a job that did not succeed or of which output is missing and must not be; "" for another.
func (w *watched) outcome(ctx context.Context, opts watchOptions, f *follow.Follower, status string) (text string, lost bool, err error) {
	losses := w.losses()
	lost = losses != "" && !opts.partial
	if status == client.StatusSuccess && !lost {
		return "", false, nil
	}
	end, err := f.Ending(ctx)
	if err != nil {
		return "", lost, err
	}
	text = end.Outcome(f.ID)
	if lost {
		text = losses.Error(f.ID, text).Error()
	}
	return text, lost, nil
}

// watchView prints the events of one job as text, in their order.
type watchView struct {
	palette term.Palette
	id      int64
	last    follow.Change
	status  io.Writer // changes of the status
	output  follow.JobOutput
}

func (w *watchView) show(c follow.Change) {
	// Log entries precede a final status and follow any other status.
	if !client.Final(c.Status) {
		w.showStatus(c)
	}
	w.output.Show(c.Entries)
	if c.Final {
		w.showStatus(c)
	}
}

func (w *watchView) showStatus(c follow.Change) {
	if follow.SameProgress(w.last, c) {
		return
	}
	w.last = c
	text := fmt.Sprintf("job %d: %s", w.id, cli.StatusText(w.palette, c.Status))
	if at := follow.CurrentOpcode(c.OpStatus); at > 0 && !client.Final(c.Status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.OpStatus))
	}
	w.output.EndLine()
	fmt.Fprintln(w.status, text)
}
