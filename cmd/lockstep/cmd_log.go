package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
)

type logOptions struct {
	Follow     bool
	Timestamps bool
	Strict     bool
}

func newLogCommand(globals *globalOptions) *cobra.Command {
	opts := logOptions{}
	command := &cobra.Command{
		Use:   "log [flags] ID",
		Short: "Print the log of a job, which is its output",
		Long: `Print the log of a job. For a command that was run as a job it is its output.

` + outputHelp + `

Exit code: 0, however the job ended; 1 if there is no such job; 125 if output is
missing, with --strict-output.
With --json, one object per line:
{"event": "log", "job", "serial", "time", "type", "payload"} and
` + missingEventHelp + `

` + logTypesHelp,
		Example: `  lockstep log 12
  lockstep log --follow --timestamps 12`,
		Args: wants(1, 1, "name one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runLog(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on until the job has ended")
	command.Flags().BoolVarP(&opts.Timestamps, "timestamps", "t", false, "begin each line with its local time")
	command.Flags().BoolVar(&opts.Strict, "strict-output", false, strictOutputUsage)
	return command
}

func runLog(ctx context.Context, opts logOptions, globals *globalOptions, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	id := ids[0]
	view := newLogView(opts, globals, id)
	if opts.Follow {
		f := &follower{session: daemon, id: id}
		if _, err := f.follow(ctx, func(c change) { view.show(c.entries) }); err != nil {
			return err
		}
		return view.finish()
	}
	rows, err := queryJobs(ctx, daemon, ids, "status", "oplog")
	if err != nil {
		return err
	}
	var status string
	var logs [][]logEntry
	if err := scan(rows[0], &status, &logs); err != nil {
		return err
	}
	if status == "" {
		return errUnknownJob(id)
	}
	view.show(slices.Concat(logs...))
	return view.finish()
}

// logView shows the log for people or for programs.
type logView struct {
	json, strict bool
	lines        jobOutput
	events       eventView
}

func newLogView(opts logOptions, globals *globalOptions, id int64) *logView {
	return &logView{json: globals.JSON, strict: opts.Strict, events: eventView{out: globals.streams.Out, id: id},
		lines: jobOutput{id: id, streams: globals.streams, others: true, stamped: opts.Timestamps}}
}

func (v *logView) show(entries []logEntry) {
	if v.json {
		v.events.entries(entries)
		return
	}
	v.lines.show(entries)
}

func (v *logView) finish() error {
	v.lines.finish()
	if v.strict && (v.lines.incomplete() || v.events.missing() != nil) {
		return &exitError{code: exitIncomplete}
	}
	return nil
}
