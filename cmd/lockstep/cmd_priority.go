package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Priorities that a job can be given after its submission (queue.md 4.2).
const (
	priorityMin = -20
	priorityMax = 19
)

func newPriorityCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "priority PRIORITY ID...",
		Short: "Change the priority of jobs that have not ended",
		Long: `Change the priority of jobs: low, normal or high, which are 10, 0 and -10, or a
number from -20 to 19. The smaller the number, the sooner a job is started.

Opcodes that have not started take it. What runs goes on as it is, and what was
submitted keeps its record.

Exit code: 0 if every job took the priority, 1 otherwise.
` + jobAnswerHelp,
		Example: `  lockstep priority high 12 13
  lockstep priority -5 14`,
		Annotations: map[string]string{negativeNumbers: ""},
		Args:        wants(2, -1, "name a priority, then at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			args = unshieldNumbers(args)
			return runPriority(command.Context(), globals, args[0], args[1:])
		},
	}
}

func runPriority(ctx context.Context, globals *globalOptions, level string, args []string) error {
	priority, err := parseLevel(level)
	if err != nil {
		return err
	}
	change := wish{
		doing:   "changing",
		refused: "was not changed",
		ask: func(ctx context.Context, daemon *session, id int64) (jobAnswer, error) {
			answer, err := askPair(ctx, daemon, "ChangeJobPriority", id, priority)
			if err != nil {
				return answer, fmt.Errorf("change job %d: %w", id, err)
			}
			return answer, nil
		},
		remark: func(_ int64, s standing) string {
			if s.settled() {
				return s.String()
			}
			return "" // the daemon's text says it all
		},
		done: "opcodes that have not begun have priority " + priorityName(priority),
	}
	return change.forAll(ctx, globals, args)
}

// parseLevel reads any priority; a new job can have only three of them.
func parseLevel(text string) (int, error) {
	switch text {
	case "high":
		return priorityHigh, nil
	case "normal":
		return priorityNormal, nil
	case "low":
		return priorityLow, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < priorityMin || number > priorityMax {
		return 0, usagef("a priority is low, normal, high or a number from %d to %d, not %q",
			priorityMin, priorityMax, text)
	}
	return number, nil
}

// negativeNumbers marks commands that take -5 as an argument. The parser of flags would
// take it for the flag 5, so it gets it with something in front.
const (
	negativeNumbers = "negative numbers"
	notAFlag        = " "
)

func unshieldNumbers(args []string) []string {
	bare := make([]string, len(args))
	for i, arg := range args {
		bare[i] = strings.TrimPrefix(arg, notAFlag)
	}
	return bare
}

// shieldNumbers puts notAFlag before the negative numbers among the arguments of a command
// that takes some.
func shieldNumbers(root *cobra.Command, args []string) []string {
	command, _, err := root.Find(args)
	if err != nil { // execution will say so
		return args
	}
	if _, takes := command.Annotations[negativeNumbers]; !takes {
		return args
	}
	number := regexp.MustCompile(`^-[0-9]+$`)
	shielded := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(shielded[i:], args[i:])
			break
		}
		if number.MatchString(arg) {
			arg = notAFlag + arg
		}
		shielded[i] = arg
	}
	return shielded
}
