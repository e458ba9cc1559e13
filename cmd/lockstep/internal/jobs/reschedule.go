package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/instant"
)

// NewRescheduleCommand is the command reschedule.
func NewRescheduleCommand(globals *cli.Globals) *cobra.Command {
	chosen := &selection.ChangeFlags{}
	var delay time.Duration
	command := &cobra.Command{
		Use:   "reschedule [flags] [ID|NAME]... TIME",
		Short: "Change when jobs that have not started may start",
		Long: `Change the time before which jobs do not start, also of jobs that were submitted
without one. A job between two tries makes its next try then. A job that has started or
ended is not changed. With --delay instead of TIME the time is that long from now.
Several ids may also be one argument, with commas between them. TIME is

` + instant.Help + `

in your zone. A time that has passed is refused, and so is one that the clock skips; of
a time that the clock shows twice, the first is meant.

` + selection.ChangeHelp + `

Exit code: 0 if the time of every job was changed, 1 otherwise; 2 for a wrong TIME.
` + jobAnswerHelp,
		Example: `  lockstep reschedule 12 now
  lockstep reschedule 12,13 'tomorrow 03:00'
  lockstep reschedule --delay 2h nightly
  lockstep reschedule --user alice '2026-12-01 03:00'`,
		Args: func(_ *cobra.Command, args []string) error {
			wanted := 1 // the time
			if delay > 0 {
				wanted = 0
			}
			if len(args) < wanted || len(args) == wanted && !chosen.Given() {
				return cli.Usagef("name at least one job, by its id or name, or select jobs, then the time, or give --delay")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			start, err := instant.After(delay, globals.Streams.Now())
			if delay == 0 {
				now := globals.Streams.Now()
				start, err = instant.Parse(args[len(args)-1], now, now.Location())
				args = args[:len(args)-1]
			}
			if err != nil {
				return cli.Usagef("%v", err)
			}
			var ids []string
			for _, arg := range args {
				ids = append(ids, strings.Split(arg, ",")...)
			}
			return runReschedule(command.Context(), globals, chosen, start, ids)
		},
	}
	chosen.Register(globals, command, selection.Unfinished)
	command.Flags().Var(term.DurationFlag{Value: &delay}, "delay", "`DURATION` from now, like 90s, 1h30m or 2d, in the place of TIME")
	completion.Flag(command, "delay", completion.Nothing)
	jobs := command.ValidArgsFunction
	command.ValidArgsFunction = func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		ids, directive := jobs(command, args, word)
		if len(args) == 0 {
			return ids, directive
		}
		times, _ := completion.Times(command, args, word)
		return append(times, ids...), directive
	}
	return command
}

func runReschedule(
	ctx context.Context, globals *cli.Globals, chosen *selection.ChangeFlags, start instant.Instant, args []string,
) error {
	at, done := start.At.Format(time.RFC3339Nano), "it starts at "+start.String()
	if start.Now {
		at, done = "now", "it may start now"
	}
	order := &jobOrder{"reschedule", []any{at}}
	change := perJobAction{
		verb:    "change the time of",
		scope:   selection.Unfinished,
		doing:   "changing",
		refused: "was not changed",
		order:   order,
		remark: func(_ int64, s jobState) string {
			if s.explainsRefusal() {
				return s.String()
			}
			return "" // the daemon's text is complete
		},
		done: done,
	}
	change.call = func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
		answers, err := change.forSeveral(ctx, daemon, []int64{id})
		if err != nil {
			return Answer{ID: id}, fmt.Errorf("change job %d: %w", id, err)
		}
		return answers[0], nil
	}
	return change.forAll(ctx, globals, chosen, args)
}
