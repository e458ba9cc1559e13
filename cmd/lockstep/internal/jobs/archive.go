package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/selection"
)

// NewArchiveCommand is the command archive.
func NewArchiveCommand(globals *cli.Globals) *cobra.Command {
	chosen := &selection.ChangeFlags{}
	command := &cobra.Command{
		Use:   "archive [flags] [ID|NAME]...",
		Short: "Move jobs that have ended to the archive",
		Long: `Move jobs that have ended to the archive. "lockstep list" then shows them only with
--archived; info, log and watch still find them.

` + selection.ChangeHelp + `

Exit code: 0 if every job was archived; 1 if a job has not ended, does not exist or
is archived already.
` + jobAnswerHelp,
		Example: `  lockstep archive 12
  lockstep archive --yes --status success --name 'backup-*'`,
		Args: func(_ *cobra.Command, args []string) error { return chosen.CheckGiven(args) },
		RunE: func(command *cobra.Command, args []string) error {
			return runArchive(command.Context(), globals, chosen, args)
		},
	}
	chosen.Register(globals, command, selection.Ended)
	return command
}

func runArchive(ctx context.Context, globals *cli.Globals, chosen *selection.ChangeFlags, args []string) error {
	archive := perJobAction{
		verb:    "archive",
		scope:   selection.Ended,
		doing:   "archiving",
		refused: "was not archived",
		call: func(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
			answer := Answer{ID: id}
			err := daemon.Call(ctx, "ArchiveJob", []any{id}, &answer.Done)
			if err != nil {
				return answer, fmt.Errorf("archive job %d: %w", id, err)
			}
			return answer, nil
		},
		done: "archived",
		remark: func(_ int64, s jobState) string {
			if client.Final(s.status) && !s.archived {
				return "it is just ending; try again"
			}
			return s.String()
		},
	}
	return archive.forAll(ctx, globals, chosen, args)
}
