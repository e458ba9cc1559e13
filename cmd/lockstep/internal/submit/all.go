package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/jobfile"
	"lockstep/core/access"
	"lockstep/core/wire"
)

// Awaited is what the client that submits jobs will wait for.
type Awaited struct {
	Ends   bool // of all jobs
	Output bool // the commands of the jobs wait for this client, which reads all of their output
}

// All submits several jobs in one call and returns their ids: all or none exist afterwards, and they can depend on each
// other. beside is what each job has beside its opcodes; nil if no job has anything.
func All(
	ctx context.Context, daemon *client.Session, jobs [][]json.RawMessage, beside []jobfile.Beside, awaited Awaited,
) ([]int64, error) {
	awaited.Ends = awaited.Ends && daemon.InJob
	if awaited.Output {
		ids, err := submitNamed(ctx, daemon, jobs, beside, awaited)
		var invalid *wire.RequestError
		if !errors.As(err, &invalid) {
			return ids, err
		}
		awaited.Output = false // a daemon of an earlier version, or a mistake in the call: nothing was submitted
	}
	if len(jobs) == 1 && beside == nil && !awaited.Ends {
		ids := make([]int64, 1)
		return ids, daemon.Submit(ctx, "SubmitJob", jobs[0], &ids[0])
	}
	return submitNamed(ctx, daemon, jobs, beside, awaited)
}

// namedJob is one job of LockstepSubmitJobs.
type namedJob struct {
	Ops  []json.RawMessage `json:"ops"`
	Name string            `json:"name,omitempty"`
	// Followed: its commands wait for the client, which reads all of their output.
	Followed bool `json:"followed,omitempty"`
	// At: it starts no earlier; nil: at once.
	At *time.Time `json:"at,omitempty"`
	// As is the account as which its commands run; nil: the caller's.
	As *access.Submitter `json:"as,omitempty"`
}

func submitNamed(
	ctx context.Context, daemon *client.Session, jobs [][]json.RawMessage, beside []jobfile.Beside, awaited Awaited,
) (ids []int64, err error) {
	named := make([]namedJob, len(jobs))
	for i := range jobs {
		named[i].Ops, named[i].Followed = jobs[i], awaited.Output
		if beside != nil {
			named[i].Name, named[i].At = beside[i].Name, beside[i].At
		}
	}
	if awaited.Ends {
		err = daemon.SubmitToAwait(ctx, named, &ids)
	} else {
		err = daemon.Submit(ctx, "LockstepSubmitJobs", named, &ids)
	}
	if err == nil && len(ids) != len(jobs) {
		err = fmt.Errorf("submitted %d jobs, the daemon answered for %d", len(jobs), len(ids))
	}
	return ids, err
}
