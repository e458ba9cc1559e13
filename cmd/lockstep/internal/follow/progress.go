package follow

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// progressPause is the pause between two questions about the progress of a command.
const progressPause = time.Second

// progressLines is the number of jobs whose progress is shown at once.
const progressLines = 5

// ProgressLine is a line on a terminal for each job whose command says something about its progress, below the output of the jobs. The
// lines are cleared before other text.
type ProgressLine struct {
	term.StatusLine
	Width int              // of the terminal, in columns; 0: not known
	Now   func() time.Time // for the estimates of the ends
	said  bool             // the line has progress
}

// Show shows the progress of jobs. If no command has said anything, the line is idle again if it had progress. An open line of output
// stays.
func (l *ProgressLine) Show(jobs []answer.ListedJob, o *JobOutput, idle string) {
	var lines []string
	for _, job := range jobs {
		if job.Progress != nil {
			lines = append(lines, l.fitting(fmt.Sprintf("job %d: %s", job.ID, cli.ProgressText(job.Progress, l.Now()))))
		}
	}
	if more := len(lines) - progressLines; more > 0 {
		lines = append(lines[:progressLines], l.fitting(fmt.Sprintf("and %d more jobs with progress", more)))
	}
	switch {
	case o.open != "":
	case len(lines) > 0:
		l.said = true
		l.Set(strings.Join(lines, "\r\n"))
	case l.said:
		l.said = false
		l.Set(idle)
	}
}

func (l *ProgressLine) fitting(line string) string {
	return text.Snip(line, max(l.width()-1, 1), "…")
}

func (l *ProgressLine) width() int {
	if l.Width > 0 {
		return l.Width
	}
	return 80
}

// AskProgress asks once in progressPause what the commands of jobs say about their progress, until ctx ends. A daemon that does not answer
// is no news: the follower reports it.
func AskProgress(ctx context.Context, session *client.Session, ids []int64) <-chan []answer.ListedJob {
	said := make(chan []answer.ListedJob)
	go func() {
		daemon := session.Other() // the session waits for a change of the job
		defer daemon.Close()
		for {
			select {
			case <-daemon.After(progressPause):
			case <-ctx.Done():
				return
			}
			var list answer.JobList
			if daemon.Query(ctx, "LockstepListJobs", []any{answer.JobSelection{IDs: ids}}, &list) != nil {
				continue
			}
			select {
			case said <- list.Jobs:
			case <-ctx.Done():
				return
			}
		}
	}()
	return said
}
