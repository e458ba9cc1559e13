package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
)

// The pauses between questions why a job does not run: the first one is short, so that a job that starts at once costs none.
const (
	reasonFirst = time.Second
	reasonMax   = 5 * time.Second
)

// waiting asks why the job does not run, while it waits.
type waiting struct {
	texts chan string // what follows "job 7" in a message: the reason, when it differs from the one before, or the next try
	stop  context.CancelFunc
}

// observe begins to ask when the job waits, and ends when it does not any more.
func (r *foregroundRun) observe(ctx context.Context, status string) {
	waits := status == client.StatusQueued || status == client.StatusWaiting
	switch {
	case r.quiet || r.JSON:
	case waits && r.waiting.stop == nil:
		ctx, r.waiting.stop = context.WithCancel(ctx)
		r.waiting.texts = make(chan string)
		go r.askWhy(ctx, r.waiting.texts)
	case !waits && r.waiting.stop != nil:
		r.waiting.stop()
		r.waiting = waiting{}
	}
}

// askWhy passes the reasons to texts until ctx ends. A daemon that does not answer is no reason: the follower reports it.
func (r *foregroundRun) askWhy(ctx context.Context, texts chan<- string) {
	daemon := r.daemon.Other() // the session waits for a change of the job
	defer daemon.Close()
	told := ""
	for pause := reasonFirst; ; pause = min(2*pause, reasonMax) {
		select {
		case <-r.streams.After(pause):
		case <-ctx.Done():
			return
		}
		var pending []answer.PendingReason
		if err := daemon.Query(ctx, "LockstepPending", []any{[]int64{r.id}}, &pending); err != nil || len(pending) != 1 {
			continue
		}
		text := pending[0].Text
		if text == "" || isTry(text) || text == told || isPlace(text) && isPlace(told) {
			continue
		}
		told = text
		select {
		case texts <- " does not run yet: " + withName(ctx, daemon, text):
		case <-ctx.Done():
			return
		}
	}
}

var jobInReason = regexp.MustCompile(`\bjob ([0-9]+)\b`)

// withName adds the name of the job that a reason is about, if it has one: "waits for lock/deploy, which job 3 (nightly) has".
func withName(ctx context.Context, daemon *client.Session, reason string) string {
	at := jobInReason.FindStringSubmatchIndex(reason)
	if at == nil {
		return reason
	}
	var why answer.Why
	if err := daemon.Query(ctx, "LockstepWhy", []any{json.Number(reason[at[2]:at[3]])}, &why); err != nil || why.Name == "" {
		return reason
	}
	return reason[:at[1]] + " (" + why.Name + ")" + reason[at[1]:]
}

// isPlace reports whether the reason is a place in the order, which changes with each start.
func isPlace(reason string) bool { return strings.HasPrefix(reason, "number ") }

// isTry reports whether the reason is that the job waits for another try, as its log says.
func isTry(reason string) bool { return strings.HasPrefix(reason, "try ") }

// sayWhy says on standard error why the job does not run.
func (r *foregroundRun) sayWhy(text string) {
	r.makeRoom()
	cli.PrintError(r.streams.Err, fmt.Sprintf("job %d%s", r.id, text))
	if r.line.On {
		r.last.Status = "" // show the status again with the next change
	}
}
