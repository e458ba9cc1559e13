package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
)

type logOptions struct {
	Follow     bool
	Timestamps bool
}

func newLogCommand(globals *globalOptions) *cobra.Command {
	opts := logOptions{}
	command := &cobra.Command{
		Use:   "log [flags] ID",
		Short: "Print the log of a job, which is its output",
		Long: `Print the log lines of a job. For a command that was run as a job they are its
output.

On a terminal, escape sequences and control characters are removed. In a pipe or
file a line arrives as it was written.

Exit code: 0, however the job ended; 1 if there is no such job.
With --json, one object per line:
{"event": "log", "job", "serial", "time", "type", "payload"}`,
		Example: `  lockstep log 12
  lockstep log --follow --timestamps 12`,
		Args: wants(1, 1, "name one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runLog(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "go on until the job has ended")
	command.Flags().BoolVarP(&opts.Timestamps, "timestamps", "t", false, "begin each line with its local time")
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
	if opts.Follow {
		f := &follower{session: daemon, id: id}
		_, err := f.follow(ctx, func(c change) { printLog(opts, globals, id, c.entries) })
		return err
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
	printLog(opts, globals, id, slices.Concat(logs...))
	return nil
}

func printLog(opts logOptions, globals *globalOptions, id int64, entries []logEntry) {
	streams := globals.streams
	out := outputLines{out: streams.Out, terminal: streams.OutTerminal}
	for _, entry := range entries {
		switch {
		case globals.JSON:
			_ = printEvent(streams.Out, entry.event(id)) // run checks the stream
		case opts.Timestamps:
			out.print(fullClock(streams.Now(), entry.Time.Time) + "  " + entry.text())
		default:
			out.print(entry.text())
		}
	}
}
