package jobs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// NewArchiveCommand is the command archive.
func NewArchiveCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "archive ID...",
		Short: "Move jobs that have ended to the archive",
		Long: `Move jobs that have ended to the archive. "lockstep list" then shows them only with
--all; info, log and watch still find them.

Exit code: 0 if every job was archived; 1 if a job has not ended, does not exist or
is archived already.
` + jobAnswerHelp,
		Example: `  lockstep archive 12 13`,
		Args:    cli.WantArgs(1, -1, "name at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runArchive(command.Context(), globals, args)
		},
	}
}

func runArchive(ctx context.Context, globals *cli.Globals, args []string) error {
	archive := perJobAction{
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
	return archive.forAll(ctx, globals, args)
}
