package jobs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/selection"
)

// The range of priorities of a submitted job (queue.md 4.2).
const (
	priorityMin = -20
	priorityMax = 19
)

// NewPriorityCommand is the command priority.
func NewPriorityCommand(globals *cli.Globals) *cobra.Command {
	chosen := &selection.ChangeFlags{}
	command := &cobra.Command{
		Use:   "priority [flags] PRIORITY [ID|NAME]...",
		Short: "Change the priority of jobs that have not ended",
		Long: `Change the priority of jobs: low, normal or high, which are 10, 0 and -10, or a
number from -20 to 19. Jobs with smaller numbers start first.

The priority applies to opcodes that have not started. A running opcode and the
submitted parameters do not change.

` + selection.ChangeHelp + `

Exit code: 0 if the priority of every job was changed, 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep priority high 12 13
  lockstep priority -5 14
  lockstep priority low --user alice`,
		Annotations: map[string]string{cli.NegativeNumbers: ""},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) == 1 && !chosen.Given() {
				return cli.Usagef("name a priority, then at least one job, by its id or name, or select jobs")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			args = cli.UnshieldNumbers(args)
			return runPriority(command.Context(), globals, chosen, args[0], args[1:])
		},
	}
	chosen.Register(globals, command, selection.Unfinished)
	jobs := command.ValidArgsFunction
	command.ValidArgsFunction = func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return completion.Priorities(command, args, word)
		}
		return jobs(command, args[1:], word)
	}
	return command
}

func runPriority(ctx context.Context, globals *cli.Globals, chosen *selection.ChangeFlags, level string, args []string) error {
	priority, err := ParseLevel(level)
	if err != nil {
		return err
	}
	change := perJobAction{
		verb:    "change the priority of",
		scope:   selection.Unfinished,
		doing:   "changing",
		refused: "was not changed",
		call: func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
			answer, err := callForPair(ctx, daemon, "ChangeJobPriority", id, priority)
			if err != nil {
				return answer, fmt.Errorf("change job %d: %w", id, err)
			}
			return answer, nil
		},
		order: &jobOrder{"priority", []any{priority}},
		remark: func(_ int64, s jobState) string {
			if s.explainsRefusal() {
				return s.String()
			}
			return "" // the daemon's text is complete
		},
		done: "opcodes that have not begun have priority " + cli.PriorityName(priority),
	}
	return change.forAll(ctx, globals, chosen, args)
}

// ParseLevel reads a priority of the whole range, from -20 to 19, or its name; a new job can have only three of them.
func ParseLevel(text string) (int, error) {
	switch text {
	case "high":
		return cli.PriorityHigh, nil
	case "normal":
		return cli.PriorityNormal, nil
	case "low":
		return cli.PriorityLow, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < priorityMin || number > priorityMax {
		return 0, cli.Usagef("a priority is low, normal, high or a number from %d to %d, not %q",
			priorityMin, priorityMax, text)
	}
	return number, nil
}
