package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lockstep/core/wire"
)

// wish is something that the daemon is asked to do to each of several jobs, and may
// refuse.
type wish struct {
	doing   string // "canceling": shown on a terminal while the daemon takes its time
	refused string // "was not canceled"
	ask     func(ctx context.Context, daemon *session, id int64) (jobAnswer, error)
	// remark adds to a refusal what the job's state means for who asked; "" is nothing.
	remark func(id int64, s standing) string
	done   string // what has happened to a job for which the daemon says yes
}

// jobAnswer is the daemon's answer, and as JSON of this program what became of one job.
type jobAnswer struct {
	ID      int64  `json:"id"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

// jobAnswerHelp is what --help says of it.
const jobAnswerHelp = `With --json: a list of {"id": number, "done": bool, "message": string}`

// standing is where a job stands that something was refused for.
type standing struct {
	status   string // "" if there is no such job
	archived bool
}

// settled tells whether the state alone explains a refusal: there is no such job, or it
// has ended.
func (s standing) settled() bool { return s.status == "" || final(s.status) }

func (s standing) String() string {
	switch {
	case s.status == "":
		return `it does not exist; "lockstep list --all" shows which jobs there are`
	case s.archived:
		return "it is archived already"
	case final(s.status):
		return fmt.Sprintf("it has ended (%s)", s.status)
	}
	return fmt.Sprintf("it has not ended, it is %s", s.status)
}

// forAll asks for one job after the other and says for each what has happened. A refusal,
// also one that is an error of the daemon, concerns one job; without a daemon there is no
// point in going on.
func (w wish) forAll(ctx context.Context, globals *globalOptions, args []string) error {
	ids, err := parseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.connect()
	defer daemon.close()
	answers := []jobAnswer{}
	var stopped error
	failed := false
	for _, id := range ids {
		answer, err := w.forOne(ctx, globals, daemon, id)
		if err != nil {
			stopped = err
			break
		}
		answers = append(answers, answer)
		failed = failed || !answer.Done
		switch {
		case globals.JSON:
		case answer.Done:
			fmt.Fprintf(globals.streams.Out, "job %d: %s\n", id, visible(answer.Message))
		default:
			complain(globals.streams.Err, fmt.Sprintf("job %d %s: %s", id, w.refused, answer.Message))
		}
	}
	if globals.JSON && (stopped == nil || len(answers) > 0) {
		if err := printJSON(globals.streams.Out, answers); err != nil {
			return err
		}
	}
	if failed && stopped == nil {
		return &exitError{code: exitFailure}
	}
	return stopped
}

// forOne asks for one job, and if the answer is no, how that job stands.
func (w wish) forOne(ctx context.Context, globals *globalOptions, daemon *session, id int64) (jobAnswer, error) {
	line := statusLine{out: globals.streams.Err, on: globals.streams.ErrTerminal && !globals.JSON}
	line.set(fmt.Sprintf("%s job %d…", w.doing, id))
	defer line.clear()
	answer, err := w.ask(ctx, daemon, id)
	var failed *wire.Error
	if errors.As(err, &failed) {
		return jobAnswer{ID: id, Message: failed.Error()}, nil
	}
	if answer.Done {
		answer.Message = w.done
	}
	if err != nil || answer.Done {
		return answer, err
	}
	s, err := standingOf(ctx, daemon, id)
	if err != nil && answer.Message == "" {
		return answer, err
	}
	if err != nil { // what the daemon has said must do
		return answer, nil
	}
	remark := w.remark(id, s)
	switch {
	case remark == "":
	case s.settled():
		answer.Message = remark // the daemon's text says less, or something else
	default:
		answer.Message = strings.TrimPrefix(answer.Message+"; "+remark, "; ")
	}
	return answer, nil
}

// askPair makes a call that the daemon answers with [done, text].
func askPair(ctx context.Context, daemon *session, method string, id int64, arg any) (jobAnswer, error) {
	answer := jobAnswer{ID: id}
	pair := []any{&answer.Done, &answer.Message}
	err := daemon.call(ctx, method, []any{id, arg}, &pair)
	return answer, err
}

func standingOf(ctx context.Context, daemon asker, id int64) (standing, error) {
	rows, err := queryJobs(ctx, daemon, []int64{id}, "status", "archived")
	if err != nil {
		return standing{}, err
	}
	s := standing{}
	err = scan(rows[0], &s.status, &s.archived)
	return s, err
}
