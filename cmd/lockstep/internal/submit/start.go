package submit

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/instant"
)

// startOptions are the flags about the start of a job at a time.
type startOptions struct {
	At    string
	Delay time.Duration
}

func (o *startOptions) register(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&o.At, "at", "", "start the job at `TIME`, such as \"tomorrow 03:00\", or later (default at once)")
	flags.Var(term.DurationFlag{Value: &o.Delay}, "delay", "start the job `DURATION` from now, like 90s, 1h30m or 2d, or later")
	completion.Flag(command, "at", completion.Times)
	completion.Flag(command, "delay", completion.Nothing)
}

// given reports whether a job does not start at once.
func (o *startOptions) given() bool { return o.At != "" || o.Delay > 0 }

// instant is when a job may start that is submitted now; nil: at once. The error is a *cli.UsageError.
func (o *startOptions) instant(now time.Time) (*instant.Instant, error) {
	var start instant.Instant
	var err error
	flag := "--at"
	switch {
	case !o.given():
		return nil, nil //nolint:nilnil // there is no such time
	case o.At != "" && o.Delay > 0:
		return nil, cli.Usagef("--at and --delay both say when the job starts; give one of them")
	case o.At != "":
		start, err = instant.Parse(o.At, now, now.Location())
	default:
		flag = "--delay"
		start, err = instant.After(o.Delay, now)
	}
	if err != nil {
		return nil, cli.Usagef("%s: %v", flag, err)
	}
	return &start, nil
}

// atOf is the start of a job for events; "": at once.
func atOf(start *instant.Instant) string {
	if start == nil {
		return ""
	}
	return start.At.Format(time.RFC3339Nano)
}

// sayStart says when a submitted job starts, unless that is at once, and what a restart of the daemon before that time does to its secrets.
func sayStart(globals *cli.Globals, id int64, start *instant.Instant, secrets bool) {
	if start == nil {
		return
	}
	if !globals.JSON {
		fmt.Fprintf(globals.Streams.Err, "job %d starts at %s\n", id, start)
	}
	if secrets {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf(
			"job %d has secrets, which are never stored: if the daemon restarts before that time, the job fails", id))
	}
}
