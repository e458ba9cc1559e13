package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
)

// NewWatchCommand is the command watch.
func NewWatchCommand(globals *cli.Globals) *cobra.Command {
	strict := false
	command := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job's status and log until it ends",
		Long: `Follow a job: print each change of its status and each line of its log, until
it ends. Ctrl-C stops watching; the job continues.

Watching continues over a restart of the daemon.

Standard error of a command goes to standard error, all other text to standard
output. "lockstep log --help" describes missing lines.

Exit code: 0 if the job succeeded, 1 otherwise; 125 if output is missing, with
--strict-output.
With --json, one object per line:
{"event": "status", "job", "status", "opcode_status"},
{"event": "log", "job", "serial", "time", "type", "payload"},
{"event": "end", "job", "status", "error", "missing"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep watch 12
  lockstep watch --json 12 | jq .status`,
		Args: cli.WantArgs(1, 1, "name one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runWatch(command.Context(), strict, globals, args)
		},
	}
	command.Flags().BoolVar(&strict, "strict-output", false, follow.StrictOutputUsage)
	return command
}

func runWatch(ctx context.Context, strict bool, globals *cli.Globals, args []string) error {
	ids, err := cli.ParseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	id := ids[0]
	events := &follow.EventView{Out: globals.Streams.Out, ID: id}
	lines := &watchView{palette: globals.Palette(), id: id,
		output: follow.JobOutput{ID: id, Streams: globals.Streams, Others: true, Mixed: true}}
	show := lines.show
	if globals.JSON {
		show = events.Show
	}
	f := &follow.Follower{Session: daemon, ID: id}
	status, err := f.Follow(ctx, show)
	if err != nil {
		return err
	}
	text := ""
	if status != client.StatusSuccess {
		end, err := f.Ending(ctx)
		if err != nil {
			return err
		}
		text = end.Sentence(id)
	}
	if globals.JSON {
		if err := follow.PrintEvent(globals.Streams.Out, follow.Event{Event: "end", Job: id, Status: status, Error: text, Missing: events.Missing()}); err != nil {
			return err
		}
	}
	lines.output.Finish()
	switch incomplete := lines.output.Incomplete() || events.Missing() != nil; {
	case strict && incomplete && text != "" && !globals.JSON:
		return &cli.ExitError{Code: follow.ExitIncomplete, Err: errors.New(text)}
	case strict && incomplete:
		return &cli.ExitError{Code: follow.ExitIncomplete}
	case status == client.StatusSuccess:
		return nil
	case globals.JSON:
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return errors.New(text)
}

// watchView prints the events of one job as text, in their order.
type watchView struct {
	palette term.Palette
	id      int64
	last    follow.Change
	output  follow.JobOutput
}

func (w *watchView) show(c follow.Change) {
	// Log entries precede a final status and follow any other status.
	if !client.Final(c.Status) {
		w.status(c)
	}
	w.output.Show(c.Entries)
	if c.Final {
		w.status(c)
	}
}

func (w *watchView) status(c follow.Change) {
	if follow.SameProgress(w.last, c) {
		return
	}
	w.last = c
	text := fmt.Sprintf("job %d: %s", w.id, cli.StatusText(w.palette, c.Status))
	if at := follow.CurrentOpcode(c.OpStatus); at > 0 && !client.Final(c.Status) {
		text += fmt.Sprintf(", opcode %d of %d", at, len(c.OpStatus))
	}
	w.output.EndLine()
	fmt.Fprintln(w.output.Streams.Out, text)
}
