package jobs

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// The range of priorities of a submitted job (queue.md 4.2).
const (
	priorityMin = -20
	priorityMax = 19
)

// NewPriorityCommand is the command priority.
func NewPriorityCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "priority PRIORITY ID...",
		Short: "Change the priority of jobs that have not ended",
		Long: `Change the priority of jobs: low, normal or high, which are 10, 0 and -10, or a
number from -20 to 19. Jobs with smaller numbers start first.

The priority applies to opcodes that have not started. A running opcode and the
submitted parameters do not change.

Exit code: 0 if the priority of every job was changed, 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep priority high 12 13
  lockstep priority -5 14`,
		Annotations: map[string]string{cli.NegativeNumbers: ""},
		Args:        cli.WantArgs(2, -1, "name a priority, then at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			args = cli.UnshieldNumbers(args)
			return runPriority(command.Context(), globals, args[0], args[1:])
		},
	}
}

func runPriority(ctx context.Context, globals *cli.Globals, level string, args []string) error {
	priority, err := ParseLevel(level)
	if err != nil {
		return err
	}
	change := perJobAction{
		doing:   "changing",
		refused: "was not changed",
		call: func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
			answer, err := callForPair(ctx, daemon, "ChangeJobPriority", id, priority)
			if err != nil {
				return answer, fmt.Errorf("change job %d: %w", id, err)
			}
			return answer, nil
		},
		remark: func(_ int64, s jobState) string {
			if s.explainsRefusal() {
				return s.String()
			}
			return "" // the daemon's text is complete
		},
		done: "opcodes that have not begun have priority " + cli.PriorityName(priority),
	}
	return change.forAll(ctx, globals, args)
}

// ParseLevel reads a priority of the whole range; a new job can have only three of them.
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
