package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

// How long the daemon may work for one call, in seconds. Where progress is shown that is
// how often there is some.
const (
	archiveTimeout         = 60
	archiveTimeoutTerminal = 1
)

func newAutoarchiveCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "autoarchive AGE|all",
		Short: "Move all jobs to the archive that ended long ago",
		Long: `Move jobs to the archive that have ended more than AGE ago, or with "all" every
job that has ended. AGE is a number of seconds, or one with a unit: s, m, h, d
or w for seconds, minutes, hours, days and weeks. Jobs that have not ended stay.

Exit code: 0, also if there was nothing to archive; 1 if the daemon could not.
With --json: {"archived": number}`,
		Example: `  lockstep autoarchive 12h
  lockstep autoarchive 2w
  lockstep autoarchive all`,
		Args: wants(1, 1, `say how long ago jobs must have ended, like 12h or 7d, or "all"`),
		RunE: func(command *cobra.Command, args []string) error {
			return runAutoarchive(command.Context(), globals, args[0])
		},
	}
}

func runAutoarchive(ctx context.Context, globals *globalOptions, text string) error {
	age, err := parseAge(text)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	archived, err := archiveAll(ctx, globals, daemon, age)
	if err != nil {
		if archived > 0 {
			return fmt.Errorf("archived %s, then: %w", countJobs(archived), err)
		}
		return err
	}
	if globals.JSON {
		return printJSON(globals.streams.Out, map[string]int{"archived": archived})
	}
	fmt.Fprintf(globals.streams.Out, "archived %s\n", countJobs(archived))
	return nil
}

// archiveAll asks again until the daemon has looked at every job (queue.md 4.9), and
// returns how many it has archived.
func archiveAll(ctx context.Context, globals *globalOptions, daemon *session, age int64) (archived int, err error) {
	timeout := archiveTimeout
	if showsProgress(globals) {
		timeout = archiveTimeoutTerminal
	}
	bar := progressBar{}
	defer func() { bar.stop() }()
	for first := true; ; first = false {
		var now, left int
		answer := []any{&now, &left}
		if err := daemon.call(ctx, "AutoArchiveJobs", []any{age, timeout}, &answer); err != nil {
			return archived, err
		}
		archived += now
		if first && left > 0 {
			bar = startProgress(globals, "archiving", archived+left)
		}
		bar.show(fmt.Sprintf("%d of %d jobs archived", archived, archived+left), archived)
		switch {
		case left == 0:
			return archived, nil
		case now == 0:
			return archived, fmt.Errorf("the daemon gets no further, with %s left", countJobs(left))
		}
	}
}

const (
	ageAll = -1 // on the wire: whenever it was
	// ageMax is nothing that a queue lives to see, in seconds.
	ageMax = 100 * 366 * int64(day/time.Second)
)

// parseAge returns an age in seconds.
func parseAge(text string) (int64, error) {
	if text == "all" {
		return ageAll, nil
	}
	parts := regexp.MustCompile(`^([0-9]+)([smhdw]?)$`).FindStringSubmatch(text)
	if parts == nil {
		return 0, usagef(`an age is a number and s, m, h, d or w, like 12h, or "all", not %q`, text)
	}
	number, err := strconv.ParseInt(parts[1], 10, 64)
	unit := ageUnit(parts[2])
	if err != nil || number > ageMax/unit {
		return 0, usagef("an age of %s is longer than 100 years", text)
	}
	return number * unit, nil
}

// ageUnit is how many seconds a unit has; none is seconds.
func ageUnit(name string) int64 {
	switch name {
	case "m":
		return int64(time.Minute / time.Second)
	case "h":
		return int64(time.Hour / time.Second)
	case "d":
		return int64(day / time.Second)
	case "w":
		return int64(7 * day / time.Second)
	}
	return 1
}

// countJobs is "1 job", "2 jobs".
func countJobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return fmt.Sprintf("%d jobs", n)
}
