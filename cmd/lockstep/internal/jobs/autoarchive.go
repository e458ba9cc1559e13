package jobs

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/words"
)

// The time limit of one call, in seconds. A progress bar advances after each call.
const (
	archiveTimeout         = 60
	archiveTimeoutTerminal = 1
)

type autoarchiveOptions struct{ DryRun bool }

// NewAutoarchiveCommand is the command autoarchive.
func NewAutoarchiveCommand(globals *cli.Globals) *cobra.Command {
	opts := autoarchiveOptions{}
	command := &cobra.Command{
		Use:   "autoarchive [--dry-run] AGE|all",
		Short: "Move all jobs that ended long ago to the archive",
		Long: `Move jobs that ended more than AGE ago to the archive, or with "all" every job that
has ended. AGE is ` + words.DurationHelp + `.
A number without a unit is refused. Jobs that have not ended stay.

With --dry-run nothing is archived; the command prints the number of jobs that
would be.

Exit code: 0, also if there was nothing to archive; 1 if the daemon failed.
With --json: {"archived": number}, with --dry-run {"would_archive": number}`,
		Example: `  lockstep autoarchive 12h
  lockstep autoarchive --dry-run 2w
  lockstep autoarchive all`,
		Args: cli.WantArgs(1, 1, `say how long ago jobs must have ended, like 12h or 7d, or "all"`),
		RunE: func(command *cobra.Command, args []string) error {
			return runAutoarchive(command.Context(), opts, globals, args[0])
		},
	}
	command.Flags().BoolVar(&opts.DryRun, "dry-run", false, "archive nothing, print how many jobs would be archived")
	return command
}

func runAutoarchive(ctx context.Context, opts autoarchiveOptions, globals *cli.Globals, text string) error {
	age, err := parseAge(text)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	if opts.DryRun {
		return previewArchive(ctx, globals, daemon, age)
	}
	archived, err := archiveAll(ctx, globals, daemon, age)
	if err != nil {
		if archived > 0 {
			return fmt.Errorf("archived %s, then: %w", term.Count(archived, "job"), err)
		}
		return err
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, map[string]int{"archived": archived})
	}
	fmt.Fprintf(globals.Streams.Out, "archived %s\n", term.Count(archived, "job"))
	return nil
}

// previewArchive counts the jobs that AutoArchiveJobs would archive now, by the rule of the
// daemon: the age of a job counts from its end, or from its start if that is later.
func previewArchive(ctx context.Context, globals *cli.Globals, daemon *client.Session, age int64) error {
	rows, err := client.QueryJobs(ctx, daemon, nil, "status", "start_ts", "end_ts")
	if err != nil {
		return err
	}
	before := globals.Streams.Now().Add(-time.Duration(age) * time.Second)
	count := 0
	for _, row := range rows {
		var status string
		var started, ended client.Timestamp
		if err := client.Scan(row, &status, &started, &ended); err != nil {
			return err
		}
		last := ended.Time
		if started.After(last) {
			last = started.Time
		}
		if client.Final(status) && (age == ageAll || last.Before(before)) {
			count++
		}
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, map[string]int{"would_archive": count})
	}
	fmt.Fprintf(globals.Streams.Out, "would archive %s\n", term.Count(count, "job"))
	return nil
}

// archiveAll repeats the call until the daemon has examined every job (queue.md 4.9), and returns
// the number of archived jobs.
func archiveAll(ctx context.Context, globals *cli.Globals, daemon *client.Session, age int64) (archived int, err error) {
	timeout := archiveTimeout
	if globals.ShowsProgress() {
		timeout = archiveTimeoutTerminal
	}
	bar := &term.Bar{}
	defer func() { bar.Stop() }()
	for first := true; ; first = false {
		var now, left int
		answer := []any{&now, &left}
		if err := daemon.Call(ctx, "AutoArchiveJobs", []any{age, timeout}, &answer); err != nil {
			return archived, err
		}
		archived += now
		if first && left > 0 {
			bar = globals.StartProgress("archiving", archived+left)
		}
		bar.Show(fmt.Sprintf("%d of %d jobs archived", archived, archived+left), archived)
		switch {
		case left == 0:
			return archived, nil
		case now == 0:
			return archived, fmt.Errorf("the daemon makes no progress, with %s left", term.Count(left, "job"))
		}
	}
}

// ageAll is the age on the wire that selects every job that has ended.
const ageAll = -1

// parseAge returns an age in whole seconds, rounded up; ageAll for "all". The error is a *UsageError.
func parseAge(text string) (int64, error) {
	if text == "all" {
		return ageAll, nil
	}
	age, err := words.ParseDuration(text)
	if err != nil {
		return 0, cli.Usagef("%v", err)
	}
	return int64(math.Ceil(age.Seconds())), nil
}
