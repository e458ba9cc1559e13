package submit

import (
	"context"
	"encoding/json"
	"fmt"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/core/record"
)

// sayRejected prints an error for each of the submitted jobs that a filter rule has rejected, with the rule
// and its reason. The error is nil if there is none: a rejected job is canceled before its id is returned.
func sayRejected(ctx context.Context, globals *cli.Globals, daemon *client.Session, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := client.QueryJobs(ctx, daemon, ids, "status")
	if err != nil {
		return fmt.Errorf("the jobs are submitted, but the daemon does not say whether a rule rejects them: %w", err)
	}
	failed := false
	for i, row := range rows {
		var status *string
		if err := json.Unmarshal(row[0], &status); err != nil {
			return err
		}
		if status == nil || *status != client.StatusCanceled {
			continue
		}
		end, err := follow.EndingOf(ctx, daemon, ids[i])
		if err != nil {
			return err
		}
		if record.Rejected(end.Failure.String()) {
			cli.PrintError(globals.Streams.Err, end.Sentence(ids[i]))
			failed = true
		}
	}
	if failed {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}
