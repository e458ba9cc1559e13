package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/wire"
)

// perJobAction is a client order for each of several jobs. The daemon may refuse it.
type perJobAction struct {
	verb    string // "cancel": of the question before several jobs are changed
	scope   selection.Scope
	doing   string // "canceling": shown on a terminal during the call
	refused string // "was not canceled"
	call    func(ctx context.Context, daemon *client.Session, id int64) (Answer, error)
	// order is the arguments of LockstepOrderJobs for many jobs, beside their ids; nil: each job has a call of its own.
	order *jobOrder
	// remark explains a refusal by the job's state; "": no remark.
	remark func(id int64, s jobState) string
	done   string // the result for a job if the daemon accepts
}

// jobOrder is the same order for several jobs.
type jobOrder struct {
	kind     string
	priority []any // of the kind priority; otherwise empty
}

// Answer is the daemon's answer for one job, also in JSON output.
type Answer struct {
	ID      int64  `json:"id"`
	Done    bool   `json:"done"`
	Message string `json:"message"`
}

// jobAnswerHelp describes Answer in the help.
const jobAnswerHelp = `With --json: a list of {"id": number, "done": bool, "message": string}`

// jobState is the state of a job after a refused order.
type jobState struct {
	status   string // "" if there is no such job
	archived bool
}

// explainsRefusal reports whether the state alone explains a refusal: there is no such job,
// or it has ended.
func (s jobState) explainsRefusal() bool { return s.status == "" || client.Final(s.status) }

func (s jobState) String() string {
	switch {
	case s.status == "":
		return `it does not exist; "lockstep list --all --archived" shows which jobs there are`
	case s.archived:
		return "it is archived already"
	case client.Final(s.status):
		return fmt.Sprintf("it has ended (%s)", s.status)
	}
	return fmt.Sprintf("it has not ended, it is %s", s.status)
}

// forAll sends the orders and prints the results in the order of the jobs. A refusal or an
// error of the daemon concerns one job; a lost daemon ends the loop.
func (a perJobAction) forAll(ctx context.Context, globals *cli.Globals, chosen *selection.ChangeFlags, args []string) error {
	daemon := globals.Connect()
	defer daemon.Close()
	ids, err := chosen.Jobs(ctx, globals, daemon, args, a.scope, a.verb)
	if err != nil {
		return err
	}
	if len(ids) == 0 && !globals.JSON {
		fmt.Fprintln(globals.Streams.Err, "no jobs")
	}
	answers := []Answer{}
	var stopped error
	failed := false
	line := term.StatusLine{Out: globals.Streams.Err, On: globals.Streams.ErrTerminal && !globals.JSON}
	if err := a.mayOrder(ctx, daemon, ids); err != nil {
		return err
	}
	next, end := a.send(ctx, daemon, ids)
	defer end()
	for _, id := range ids {
		line.Set(fmt.Sprintf("%s job %d…", a.doing, id))
		answer, err := next()
		line.Clear()
		if err != nil {
			stopped = cmp.Or(stopped, err)
			end()
			continue // orders that were under way have answers
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

// mayOrder asks whether the user may give the order for all of the jobs, if they do not fit into one call. Without that, the jobs before
// one that is another user's would be changed.
func (a perJobAction) mayOrder(ctx context.Context, daemon *client.Session, ids []int64) error {
	kind, atOnce := a.verb, 1 // each job has a call of its own
	if a.order != nil {
		kind, atOnce = a.order.kind, orderedAtOnce
	}
	if len(ids) <= atOnce {
		return nil
	}
	for chunk := range slices.Chunk(ids, checkedAtOnce) {
		var may bool
		if err := daemon.Call(ctx, "LockstepMayOrder", []any{kind, chunk}, &may); err != nil {
			return fmt.Errorf("%s %d jobs: %w", a.verb, len(ids), err)
		}
	}
	return nil
}

// checkedAtOnce is the number of jobs for which one call asks whether an order is permitted.
const checkedAtOnce = 1000

// orderedAtOnce is the number of jobs of one call. The answers of a call come together, and so does what is shown of them.
const orderedAtOnce = 500

// sentAtOnce bounds the orders that are under way at once. Their changes share syncs of the daemon.
const sentAtOnce = 16

// send sends the orders for the jobs, over several connections if there are many. next returns the answers in the order of the jobs; after
// end no further order is sent; those that were not have an error.
func (a perJobAction) send(ctx context.Context, daemon *client.Session, ids []int64) (next func() (Answer, error), end func()) {
	type result struct {
		answer Answer
		err    error
	}
	var ended atomic.Bool
	connections := max(1, min(sentAtOnce, len(ids)/sentAtOnce))
	results := make([]chan result, len(ids))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	var sending sync.WaitGroup
	if a.order != nil && len(ids) > 1 {
		connections = 0
		sending.Go(func() {
			at := 0
			for chunk := range slices.Chunk(ids, orderedAtOnce) {
				var answers []Answer
				err := context.Canceled
				if !ended.Load() {
					answers, err = a.forSeveral(ctx, daemon, chunk)
				}
				for i := range chunk {
					r := result{err: err}
					if err == nil {
						r.answer, r.err = a.explained(ctx, daemon, answers[i])
					}
					if r.err != nil {
						ended.Store(true)
					}
					results[at] <- r
					at++
				}
			}
		})
	}
	for first := range connections {
		session := daemon
		if first > 0 {
			session = daemon.Other()
		}
		sending.Go(func() {
			for i := first; i < len(ids); i += connections {
				r := result{err: context.Canceled}
				if !ended.Load() {
					if r.answer, r.err = a.forOne(ctx, session, ids[i]); r.err != nil {
						ended.Store(true)
					}
				}
				results[i] <- r
			}
			if session != daemon {
				session.Close()
			}
		})
	}
	taken := 0
	next = func() (Answer, error) {
		r := <-results[taken]
		taken++
		return r.answer, r.err
	}
	return next, func() { ended.Store(true); sending.Wait() }
}

// forOne sends the order for one job; after a refusal it queries the job's state for a better text. The error is that of the connection.
func (a perJobAction) forOne(ctx context.Context, daemon *client.Session, id int64) (Answer, error) {
	answer, err := a.call(ctx, daemon, id)
	var failed *wire.Error
	if errors.As(err, &failed) {
		return Answer{ID: id, Message: failed.Error()}, nil
	}
	if err != nil {
		return answer, err
	}
	return a.explained(ctx, daemon, answer)
}

// forSeveral orders the same for several jobs, and returns the daemon's answers.
func (a perJobAction) forSeveral(ctx context.Context, daemon *client.Session, ids []int64) ([]Answer, error) {
	var pairs [][]json.RawMessage
	if err := daemon.Call(ctx, "LockstepOrderJobs", append([]any{a.order.kind, ids}, a.order.priority...), &pairs); err != nil {
		return nil, fmt.Errorf("%s %d jobs: %w", a.verb, len(ids), err)
	}
	if len(pairs) != len(ids) {
		return nil, fmt.Errorf("an order for %d jobs has %d answers", len(ids), len(pairs))
	}
	answers := make([]Answer, len(ids))
	for i, pair := range pairs {
		answers[i].ID = ids[i]
		if err := client.Scan(pair, &answers[i].Done, &answers[i].Message); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// explained is the daemon's answer in the words of the command.
func (a perJobAction) explained(ctx context.Context, daemon *client.Session, answer Answer) (Answer, error) {
	if answer.Done {
		_, more, _ := strings.Cut(answer.Message, ";") // which opcode of a held job has begun
		answer.Message = a.done
		if more != "" {
			answer.Message += ";" + more
		}
	}
	if answer.Done {
		return answer, nil
	}
	s, err := jobStateOf(ctx, daemon, answer.ID)
	if err != nil && answer.Message == "" {
		return answer, err
	}
	if err != nil {
		return answer, nil //nolint:nilerr // the daemon's text is kept
	}
	remark := a.remark(answer.ID, s)
	switch {
	case remark == "":
	case s.explainsRefusal():
		answer.Message = remark // more precise than the daemon's text
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
