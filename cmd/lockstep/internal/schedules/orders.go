package schedules

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/answer"
	"lockstep/core/instant"
	"lockstep/core/words"
)

// give gives an order about a schedule. until is the end of a pause; the zero time: none.
func give(ctx context.Context, daemon *client.Session, name, what string, until time.Time) (answered answer.ScheduleChanged, err error) {
	var seconds *float64
	if !until.IsZero() {
		value := float64(until.UnixMicro()) / 1e6
		seconds = &value
	}
	err = daemon.Call(ctx, "LockstepOrderSchedule", []any{name, what, seconds}, &answered)
	return answered, err
}

func newRunCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "run NAME",
		Short: "Submit the jobs of a schedule now",
		Long: `Submit the jobs of a schedule now, beside its due times, and print their ids. They run as
the schedule's owner. --overlap of the schedule decides if former jobs have not ended:
with skip the command fails.

Exit code: 0; 1 if no job was submitted.
With --json: {"jobs": [id]}`,
		Example: `  lockstep schedule run nightly
  lockstep watch $(lockstep schedule run nightly)`,
		Args: cli.WantArgs(1, 1, "name one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			daemon := globals.Connect()
			defer daemon.Close()
			answered, err := give(command.Context(), daemon, args[0], "run", time.Time{})
			if err != nil {
				return err
			}
			if globals.JSON {
				return cli.PrintJSON(globals.Streams.Out, map[string][]int64{"jobs": cli.OrEmpty(answered.Jobs)})
			}
			fmt.Fprintln(globals.Streams.Out, idTexts(answered.Jobs))
			return nil
		},
		ValidArgsFunction: oneSchedule(globals),
	}
}

func newPauseCommand(globals *cli.Globals) *cobra.Command {
	until := ""
	command := &cobra.Command{
		Use:   "pause NAME [--until TIME]",
		Short: "Let a schedule rest",
		Long: `Let a schedule rest until it is resumed, or until a time. Due times during the pause are
passed over: nothing makes up for them. Jobs that exist stay.

TIME is a duration from now, like 2h or 3d, or in your zone

` + instant.Help + `

Exit code: 0; 1 if there is no such schedule.
With --json: {"changed": true}`,
		Example: `  lockstep schedule pause nightly
  lockstep schedule pause nightly --until 3d
  lockstep schedule pause nightly --until 'monday 08:00'`,
		Args: cli.WantArgs(1, 1, "name one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			end, err := pauseEnd(globals.Streams.Now(), until)
			if err != nil {
				return err
			}
			text := "is paused until it is resumed"
			if !end.IsZero() {
				text = "is paused until " + instant.Format(end)
			}
			return change(command.Context(), globals, args[0], "pause", end, text)
		},
		ValidArgsFunction: oneSchedule(globals),
	}
	command.Flags().StringVar(&until, "until", "", "the pause ends at `TIME`")
	completion.Flag(command, "until", completion.Nothing)
	return command
}

// pauseEnd reads the end of a pause; the zero time for "".
func pauseEnd(now time.Time, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := words.ParseDuration(text); err == nil {
		return now.Add(d).Truncate(time.Second), nil
	}
	end, err := instant.Parse(text, now, now.Location())
	if err != nil {
		return time.Time{}, cli.Usagef("--until: %v", err)
	}
	return end.At, nil
}

func newResumeCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "resume NAME",
		Short: "Let a schedule go on after a pause, or after its clock was wrong",
		Long: `Let a schedule go on from now: after a pause, or if it is stopped because its last due
time is more than a day ahead of the clock. Nothing makes up for the time before.

Exit code: 0; 1 if there is no such schedule.
With --json: {"changed": true}`,
		Example: `  lockstep schedule resume nightly`,
		Args:    cli.WantArgs(1, 1, "name one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			return change(command.Context(), globals, args[0], "resume", time.Time{}, "goes on from now")
		},
		ValidArgsFunction: oneSchedule(globals),
	}
}

// change gives an order and says what it has done.
func change(ctx context.Context, globals *cli.Globals, name, what string, until time.Time, done string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	answered, err := give(ctx, daemon, name, what, until)
	if err != nil {
		return err
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, map[string]bool{"changed": answered.Changed})
	}
	fmt.Fprintf(globals.Streams.Out, "%s %s\n", term.Visible(name), done)
	return nil
}

func newRemoveCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME...",
		Short: "Remove schedules",
		Long: `Remove schedules, with their history. Jobs that exist stay.

Exit code: 0 if all were removed, 1 otherwise.
With --json: {"removed": [name]}`,
		Example: `  lockstep schedule remove nightly weekly`,
		Args:    cli.WantArgs(1, -1, "name at least one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			return runRemove(command.Context(), globals, args)
		},
		ValidArgsFunction: completion.Schedules(globals),
	}
}

func runRemove(ctx context.Context, globals *cli.Globals, names []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	removed := []string{}
	failed := false
	for _, name := range names {
		if _, err := give(ctx, daemon, name, "remove", time.Time{}); err != nil {
			failed = true
			cli.PrintError(globals.Streams.Err, client.Explain(err))
			continue
		}
		removed = append(removed, name)
		if !globals.JSON {
			fmt.Fprintf(globals.Streams.Out, "%s is removed\n", term.Visible(name))
		}
	}
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, map[string][]string{"removed": removed}); err != nil {
			return err
		}
	}
	if failed {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}
