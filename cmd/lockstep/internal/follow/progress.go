package follow

import (
	"context"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// progressPause is the pause between two questions about the progress of a command.
const progressPause = time.Second

// ProgressLine is a line on a terminal, below the output of a job, that says what the command says about its progress. It is cleared
// before other text.
type ProgressLine struct {
	term.StatusLine
	ID    int64
	Width int              // of the terminal, in columns; 0: not known
	Now   func() time.Time // for the estimate of the end
	said  bool             // the line has progress
}

// Show shows the progress; nil: the command has said nothing, and the line is idle again if it had progress. An open line of output stays.
func (l *ProgressLine) Show(p *answer.Progress, o *JobOutput, idle string) {
	switch {
	case o.open != "":
	case p != nil:
		l.said = true
		l.Set(text.Snip(fmt.Sprintf("job %d: %s", l.ID, cli.ProgressText(p, l.Now())), max(l.width()-1, 1), "…"))
	case l.said:
		l.said = false
		l.Set(idle)
	}
}

func (l *ProgressLine) width() int {
	if l.Width > 0 {
		return l.Width
	}
	return 80
}

// AskProgress asks once in progressPause what the command of a job says about its progress, until ctx ends. A daemon that does not answer
// is no news: the follower reports it.
func AskProgress(ctx context.Context, session *client.Session, id int64) <-chan *answer.Progress {
	said := make(chan *answer.Progress)
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
			err := daemon.Query(ctx, "LockstepListJobs", []any{answer.JobSelection{IDs: []int64{id}}}, &list)
			if err != nil || len(list.Jobs) != 1 {
				continue
			}
			select {
			case said <- list.Jobs[0].Progress:
			case <-ctx.Done():
				return
			}
		}
	}()
	return said
}
