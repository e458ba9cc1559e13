package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/wire"
)

// Awaited is what the client that submits jobs will wait for.
type Awaited struct {
	Ends   bool // of all jobs
	Output bool // the commands of the jobs wait for this client, which reads all of their output
}

// Answer is the answer for one job: its id, or the error.
type Answer struct {
	ID      int64
	Refused string
}

// All submits several jobs in one call: all or none exist afterwards, and they can depend on each
// other. names are the names of the jobs, "" for none; nil if no job has one.
func All(ctx context.Context, daemon *client.Session, jobs [][]json.RawMessage, names []string, awaited Awaited) ([]Answer, error) {
	answers := make([]Answer, len(jobs))
	awaited.Ends = awaited.Ends && daemon.InJob
	if awaited.Output {
		err := submitNamed(ctx, daemon, jobs, names, awaited, answers)
		var invalid *wire.RequestError
		if !errors.As(err, &invalid) {
			return answers, err
		}
		awaited.Output = false // a daemon of an earlier version, or a mistake in the jobs: nothing was submitted
	}
	if names != nil || awaited.Ends {
		return answers, submitNamed(ctx, daemon, jobs, names, awaited, answers)
	}
	if len(jobs) == 1 {
		return answers, daemon.Submit(ctx, "SubmitJob", jobs[0], &answers[0].ID)
	}
	var pairs [][]json.RawMessage
	if err := daemon.Submit(ctx, "SubmitManyJobs", jobs, &pairs); err != nil {
		return nil, err
	}
	if len(pairs) != len(jobs) {
		return nil, fmt.Errorf("submitted %d jobs, the daemon answered for %d", len(jobs), len(pairs))
	}
	for i, pair := range pairs {
		if len(pair) != 2 {
			return nil, fmt.Errorf("the daemon answered for job %d with %d values", i+1, len(pair))
		}
		var done bool
		if err := client.Scan(pair[:1], &done); err != nil {
			return nil, err
		}
		var err error
		if done {
			err = client.Scan(pair[1:], &answers[i].ID)
		} else if err = client.Scan(pair[1:], &answers[i].Refused); answers[i].Refused == "" {
			answers[i].Refused = "the daemon states no reason"
		}
		if err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// namedJob is one job of LockstepSubmitJobs.
type namedJob struct {
	Ops  []json.RawMessage `json:"ops"`
	Name string            `json:"name,omitempty"`
	// Followed: its commands wait for the client, which reads all of their output.
	Followed bool `json:"followed,omitempty"`
}

func submitNamed(
	ctx context.Context, daemon *client.Session, jobs [][]json.RawMessage, names []string, awaited Awaited, answers []Answer,
) error {
	named := make([]namedJob, len(jobs))
	for i := range jobs {
		named[i].Ops, named[i].Followed = jobs[i], awaited.Output
		if names != nil {
			named[i].Name = names[i]
		}
	}
	var ids []int64
	var err error
	if awaited.Ends {
		err = daemon.SubmitToAwait(ctx, named, &ids)
	} else {
		err = daemon.Submit(ctx, "LockstepSubmitJobs", named, &ids)
	}
	if err != nil {
		return err
	}
	if len(ids) != len(jobs) {
		return fmt.Errorf("submitted %d jobs, the daemon answered for %d", len(jobs), len(ids))
	}
	for i, id := range ids {
		answers[i].ID = id
	}
	return nil
}
