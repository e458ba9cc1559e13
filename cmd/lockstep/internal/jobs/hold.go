package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/selection"
)

// NewHoldCommand is the command hold.
func NewHoldCommand(globals *cli.Globals) *cobra.Command {
	return newHoldCommand(globals, true, `Hold jobs: a held job does not start, and a running job begins no further opcode, until
it is released or has ended. What executes already goes on, and the answer names that
opcode. A start that is under way is called off. A held job that runs gives up its run
slot between two opcodes.

A hold belongs to the job. It is no filter rule, and no rule overrides it. It outlives
restarts of the daemon, and in a cluster a change of the master. "lockstep why" and
"lockstep list" show it.
`, `  lockstep hold 12
  lockstep hold --user alice`)
}

// NewReleaseCommand is the command release.
func NewReleaseCommand(globals *cli.Globals) *cobra.Command {
	return newHoldCommand(globals, false, `Release jobs that "lockstep hold" holds. A job that is not held stays as it is.
`, `  lockstep release 12
  lockstep release nightly`)
}

func newHoldCommand(globals *cli.Globals, hold bool, help, example string) *cobra.Command {
	verb, done, short := "release", "it is released", "Release held jobs"
	if hold {
		verb, done, short = "hold", "it is held", "Hold jobs back until they are released"
	}
	chosen := &selection.ChangeFlags{}
	command := &cobra.Command{
		Use:   verb + " [flags] [ID|NAME]...",
		Short: short,
		Long: help + `
` + selection.ChangeHelp + `

Exit code: 0 if the order took effect for every job, 1 otherwise.
` + jobAnswerHelp,
		Example: example,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 && !chosen.Given() {
				return cli.Usagef("name at least one job, by its id or name, or select jobs")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			change := perJobAction{
				verb:    verb,
				scope:   selection.Unfinished,
				doing:   verb + "ing",
				refused: "was not changed",
				call: func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
					answer, err := callForPair(ctx, daemon, "LockstepHoldJob", id, hold)
					if err != nil {
						return answer, fmt.Errorf("%s job %d: %w", verb, id, err)
					}
					return answer, nil
				},
				order: &jobOrder{kind: verb},
				remark: func(_ int64, s jobState) string {
					if s.explainsRefusal() {
						return s.String()
					}
					return ""
				},
				done: done,
			}
			return change.forAll(command.Context(), globals, chosen, args)
		},
	}
	chosen.Register(globals, command, selection.Unfinished)
	return command
}
