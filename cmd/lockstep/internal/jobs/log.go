package jobs

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
)

type logOptions struct {
	Follow     bool
	Timestamps bool
	Strict     bool
}

// NewLogCommand is the command log.
func NewLogCommand(globals *cli.Globals) *cobra.Command {
	opts := logOptions{}
	command := &cobra.Command{
		Use:   "log [flags] ID",
		Short: "Print the log of a job, which is its output",
		Long: `Print the log of a job. For a command this is its output.

` + follow.OutputHelp + `

Exit code: 0, however the job ended; 1 if there is no such job; 125 if output is
missing, with --strict-output.
With --json, one object per line:
{"event": "log", "job", "serial", "time", "type", "payload"} and
` + follow.MissingEventHelp + `

` + follow.LogTypesHelp,
		Example: `  lockstep log 12
  lockstep log --follow --timestamps 12`,
		Args: cli.WantArgs(1, 1, "name one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runLog(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "continue until the job has ended")
	command.Flags().BoolVarP(&opts.Timestamps, "timestamps", "t", false, "prefix each line with its local time")
	command.Flags().BoolVar(&opts.Strict, "strict-output", false, follow.StrictOutputUsage)
	return command
}

func runLog(ctx context.Context, opts logOptions, globals *cli.Globals, args []string) error {
	ids, err := cli.ParseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	id := ids[0]
	view := newLogView(opts, globals, id)
	if opts.Follow {
		f := &follow.Follower{Session: daemon, ID: id}
		if _, err := f.Follow(ctx, func(c follow.Change) { view.show(c.Entries) }); err != nil {
			return err
		}
		return view.finish()
	}
	rows, err := client.QueryJobs(ctx, daemon, ids, "status", "oplog")
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
	view.show(slices.Concat(logs...))
	return view.finish()
}

// logView prints the log as text or as JSON.
type logView struct {
	json, strict bool
	lines        follow.JobOutput
	events       follow.EventView
}

func newLogView(opts logOptions, globals *cli.Globals, id int64) *logView {
	return &logView{json: globals.JSON, strict: opts.Strict, events: follow.EventView{Out: globals.Streams.Out, ID: id},
		lines: follow.JobOutput{ID: id, Streams: globals.Streams, Others: true, Stamped: opts.Timestamps}}
}

func (v *logView) show(entries []follow.LogEntry) {
	if v.json {
		v.events.Entries(entries)
		return
	}
	v.lines.Show(entries)
}

func (v *logView) finish() error {
	v.lines.Finish()
	if v.strict && (v.lines.Incomplete() || v.events.Missing() != nil) {
		return &cli.ExitError{Code: follow.ExitIncomplete}
	}
	return nil
}
