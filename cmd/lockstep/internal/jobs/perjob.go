package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/wire"
)

// perJobAction is an order to the daemon about each of several jobs. The daemon may refuse
// it.
type perJobAction struct {
	doing   string // "canceling": shown on a terminal while the daemon takes its time
	refused string // "was not canceled"
	call    func(ctx context.Context, daemon *client.Session, id int64) (Answer, error)
	// remark adds to a refusal what the job's state means for the user; "" is nothing.
	remark func(id int64, s jobState) string
	done   string // what has happened to a job for which the daemon says yes
}

// Answer is the daemon's answer, and as JSON of this program what became of one job.
type Answer struct {
	ID      int64  `json:"id"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

// jobAnswerHelp is what --help says of it.
const jobAnswerHelp = `With --json: a list of {"id": number, "done": bool, "message": string}`

// jobState is the state of a job for which the daemon has refused an order.
type jobState struct {
	status   string // "" if there is no such job
	archived bool
}

// explainsRefusal tells whether the state alone explains a refusal: there is no such job,
// or it has ended.
func (s jobState) explainsRefusal() bool { return s.status == "" || client.Final(s.status) }

func (s jobState) String() string {
	switch {
	case s.status == "":
		return `it does not exist; "lockstep list --all" shows which jobs there are`
	case s.archived:
		return "it is archived already"
	case client.Final(s.status):
		return fmt.Sprintf("it has ended (%s)", s.status)
	}
	return fmt.Sprintf("it has not ended, it is %s", s.status)
}

// forAll asks for one job after the other and says for each what has happened. A refusal,
// also one that is an error of the daemon, concerns one job; without a daemon there is no
// point in going on.
func (a perJobAction) forAll(ctx context.Context, globals *cli.Globals, args []string) error {
	ids, err := cli.ParseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	answers := []Answer{}
	var stopped error
	failed := false
	for _, id := range ids {
		answer, err := a.forOne(ctx, globals, daemon, id)
		if err != nil {
			stopped = err
			break
		}
		answers = append(answers, answer)
		failed = failed || !answer.Done
		switch {
		case globals.JSON:
		case answer.Done:
			fmt.Fprintf(globals.Streams.Out, "job %d: %s\n", id, term.Visible(answer.Message))
		default:
			cli.PrintError(globals.Streams.Err, fmt.Sprintf("job %d %s: %s", id, a.refused, answer.Message))
		}
	}
	if globals.JSON && (stopped == nil || len(answers) > 0) {
		if err := cli.PrintJSON(globals.Streams.Out, answers); err != nil {
			return err
		}
	}
	if failed && stopped == nil {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return stopped
}

// forOne asks for one job, and if the answer is no, how that job stands.
func (a perJobAction) forOne(ctx context.Context, globals *cli.Globals, daemon *client.Session, id int64) (Answer, error) {
	line := term.StatusLine{Out: globals.Streams.Err, On: globals.Streams.ErrTerminal && !globals.JSON}
	line.Set(fmt.Sprintf("%s job %d…", a.doing, id))
	defer line.Clear()
	answer, err := a.call(ctx, daemon, id)
	var failed *wire.Error
	if errors.As(err, &failed) {
		return Answer{ID: id, Message: failed.Error()}, nil
	}
	if answer.Done {
		answer.Message = a.done
	}
	if err != nil || answer.Done {
		return answer, err
	}
	s, err := jobStateOf(ctx, daemon, id)
	if err != nil && answer.Message == "" {
		return answer, err
	}
	if err != nil { // what the daemon has said must do
		return answer, nil
	}
	remark := a.remark(id, s)
	switch {
	case remark == "":
	case s.explainsRefusal():
		answer.Message = remark // the daemon's text says less, or something else
	default:
		answer.Message = strings.TrimPrefix(answer.Message+"; "+remark, "; ")
	}
	return answer, nil
}

// callForPair makes a call that the daemon answers with [done, text].
func callForPair(ctx context.Context, daemon *client.Session, method string, id int64, arg any) (Answer, error) {
	answer := Answer{ID: id}
	pair := []any{&answer.Done, &answer.Message}
	err := daemon.Call(ctx, method, []any{id, arg}, &pair)
	return answer, err
}

func jobStateOf(ctx context.Context, daemon client.Querier, id int64) (jobState, error) {
	rows, err := client.QueryJobs(ctx, daemon, []int64{id}, "status", "archived")
	if err != nil {
		return jobState{}, err
	}
	s := jobState{}
	err = client.Scan(rows[0], &s.status, &s.archived)
	return s, err
}
