package submit

import (
	"context"
	"errors"
	"fmt"
	"math"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/follow"
	"lockstep/core/wire"
)

// submittedJob is a job and its index in the submission, from 0.
type submittedJob struct {
	index int
	id    int64
}

// tally counts the jobs of a submission by state.
type tally struct {
	done, failed, running int
}

// statusVanished is shown for a job that no longer exists, not even in the archive.
const statusVanished = "vanished"

// waitAll returns when all jobs are final. It calls ended once for each, and show after each
// query. poll is the timeout of one call, in seconds.
//
// It waits for a change of the first job that is not final, and then queries all open jobs in one
// call: a call per job would be slow for thousands.
func waitAll(ctx context.Context, daemon client.Querier, jobs []submittedJob, poll int,
	ended func(submittedJob, string), show func(tally)) error {
	counts := tally{}
	for lost := int64(-1); len(jobs) > 0; {
		statuses, err := statusesOf(ctx, daemon, jobs)
		if err != nil {
			return err
		}
		var open []submittedJob
		var first string // status of open[0]
		counts.running = 0
		for i, job := range jobs {
			switch status := statuses[i]; status {
			case client.StatusSuccess:
				counts.done++
				ended(job, status)
			case client.StatusError, client.StatusCanceled, statusVanished:
				counts.done++
				counts.failed++
				ended(job, status)
			default:
				if status == client.StatusRunning {
					counts.running++
				}
				if len(open) == 0 {
					first = status
				}
				open = append(open, job)
			}
		}
		show(counts)
		if jobs = open; len(jobs) == 0 {
			break
		}
		if lost == jobs[0].id {
			return fmt.Errorf("the daemon does not find job %d, which has not ended", lost)
		}
		if lost, err = waitForChange(ctx, daemon, jobs[0].id, first, poll); err != nil {
			return err
		}
	}
	return nil
}

func statusesOf(ctx context.Context, daemon client.Querier, jobs []submittedJob) ([]string, error) {
	ids := make([]int64, len(jobs))
	for i, job := range jobs {
		ids[i] = job.id
	}
	rows, err := client.QueryJobs(ctx, daemon, ids, "status")
	if err != nil {
		return nil, err
	}
	statuses := make([]string, len(rows))
	for i, row := range rows {
		if err := client.Scan(row, &statuses[i]); err != nil {
			return nil, err
		}
		if statuses[i] == "" {
			statuses[i] = statusVanished
		}
	}
	return statuses, nil
}

// waitForChange waits until a job has another status. lost is its id if the daemon does not find
// the job in the queue, else -1. The first time this means that the job was archived.
func waitForChange(ctx context.Context, daemon client.Querier, id int64, status string, poll int) (lost int64, err error) {
	// The greatest serial: log entries do not end the wait.
	args := []any{id, []string{"status"}, []string{status}, math.MaxInt32, poll}
	err = daemon.Query(ctx, "WaitForJobChange", args, nil)
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == "JobLost" {
		return id, nil
	}
	return -1, err
}

// waitDisplay shows the number of ended jobs on a terminal; elsewhere it does nothing.
type waitDisplay struct {
	poll int // seconds between two queries
	jobs int
	bar  *term.Bar
}

func startWait(globals *cli.Globals, jobs int) waitDisplay {
	display := waitDisplay{poll: follow.PollTimeout, jobs: jobs, bar: globals.StartProgress("waiting", jobs)}
	if globals.ShowsProgress() {
		display.poll = 1
	}
	return display
}

func (d waitDisplay) show(t tally) {
	d.bar.Show(fmt.Sprintf("%d of %d jobs ended, %d failed, %d running", t.done, d.jobs, t.failed, t.running), t.done)
}

func (d waitDisplay) stop() { d.bar.Stop() }
