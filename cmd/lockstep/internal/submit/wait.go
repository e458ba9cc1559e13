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

// submittedJob is a job and its place in the submission, from 0.
type submittedJob struct {
	index int
	id    int64
}

// tally counts the jobs of a submission by what has become of them.
type tally struct {
	done, failed, running int
}

// statusVanished is said of a job that exists no longer, not even in the archive.
const statusVanished = "vanished"

// waitAll returns when all jobs are final. ended is called once for each, show whenever
// it is known how things stand. poll is how long to wait for one answer, in seconds.
//
// It waits for the first job that is not final, and when that changes it asks for all of
// them at once: a call per job would be slow for thousands.
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
			return fmt.Errorf("the daemon cannot tell how job %d goes on", lost)
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

// waitForChange waits until a job has another status. lost is its id if the daemon finds
// no live job, and else -1: once, that means that the job was archived meanwhile.
func waitForChange(ctx context.Context, daemon client.Querier, id int64, status string, poll int) (lost int64, err error) {
	// No serial is greater than this one: log entries do not end the wait.
	args := []any{id, []string{"status"}, []string{status}, math.MaxInt32, poll}
	err = daemon.Query(ctx, "WaitForJobChange", args, nil)
	var failed *wire.Error
	if errors.As(err, &failed) && failed.Class == "JobLost" {
		return id, nil
	}
	return -1, err
}

// waitDisplay shows on a terminal how many jobs have ended; elsewhere it does nothing.
type waitDisplay struct {
	poll int // seconds between two looks
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
