package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func newArchiveCommand(globals *globalOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "archive ID...",
		Short: "Move jobs that have ended to the archive",
		Long: `Move jobs that have ended to the archive. "lockstep list" leaves them out then,
unless --all is given; info, log and watch find them as before.

Exit code: 0 if every job was archived; 1 if one was not, because it has not
ended, does not exist or is archived already.
` + jobAnswerHelp,
		Example: `  lockstep archive 12 13`,
		Args:    wants(1, -1, "name at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runArchive(command.Context(), globals, args)
		},
	}
}

func runArchive(ctx context.Context, globals *globalOptions, args []string) error {
	archive := wish{
		doing:   "archiving",
		refused: "was not archived",
		ask: func(ctx context.Context, daemon *session, id int64) (jobAnswer, error) {
			answer := jobAnswer{ID: id}
			err := daemon.call(ctx, "ArchiveJob", []any{id}, &answer.Done)
			if err != nil {
				return answer, fmt.Errorf("archive job %d: %w", id, err)
			}
			return answer, nil
		},
		done: "archived",
		remark: func(_ int64, s standing) string {
			if final(s.status) && !s.archived {
				return "it was just ending; try again"
			}
			return s.String()
		},
	}
	return archive.forAll(ctx, globals, args)
}
