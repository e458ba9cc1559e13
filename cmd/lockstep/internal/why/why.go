// Package why has the command why: the reasons why a job does not run, in sentences, and
// what an operator can do. It owns the words for each kind of reason.
package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/wire"
)

// What --follow asks for at most: links from the job that was named, and jobs in all.
const (
	followDepth = 10
	followJobs  = 50
)

type whyOptions struct {
	Follow bool
}

// NewCommand is the command why.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := whyOptions{}
	command := &cobra.Command{
		Use:   "why [flags] ID...",
		Short: "Say why a job does not run, and what can be done about it",
		Long: fmt.Sprintf(`Say in sentences why a job does not run yet: which job it waits for, which lock
and who holds it, which filter rule or limit holds it back, how many come before
it; and which commands change that. Of a job that runs or has ended it says so.

With --follow it goes on with the jobs that are in the way, and with those that
are in their way, up to %d links and %d jobs.

Exit code: 0 if all is known, 1 if one of the jobs does not exist.
With --json: a list of {"id": number, "status": string, "summary": [string],
"archived": bool, "reasons": [{"kind": string, "sentence": string, ...}]}, one for
each job that was named or followed to. A reason has more keys, depending on its
kind: dependency, filter, filter-limit, rate-limit, slots, order, lock, starting,
cannot-start, stopping, running or ended. Those that end in _ts are times as
RFC 3339 or null.`, followDepth, followJobs),
		Example: `  lockstep why 12
  lockstep why --follow 12
  lockstep why --json 12 | jq -r '.[0].reasons[].sentence'`,
		Args: cli.WantArgs(1, -1, "name at least one job, by its id"),
		RunE: func(command *cobra.Command, args []string) error {
			return runWhy(command.Context(), opts, globals, args)
		},
	}
	command.Flags().BoolVarP(&opts.Follow, "follow", "r", false, "say the same of the jobs that are in the way")
	return command
}

// jobWhy is the daemon's answer about one job.
type jobWhy struct{ answer.Why }

func (w jobWhy) reasons() []whyReason {
	reasons := make([]whyReason, len(w.Reasons))
	for i, reason := range w.Reasons {
		reasons[i] = whyReason{reason}
	}
	return reasons
}

func runWhy(ctx context.Context, opts whyOptions, globals *cli.Globals, args []string) error {
	ids, err := cli.ParseIDs(args)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	printer := whyPrinter{out: globals.Streams.Out, now: globals.Streams.Now(), colours: globals.Palette(), follow: opts.Follow}
	walk := whyWalk{follow: opts.Follow, met: map[int64]bool{}}
	walk.add(ids, 0)
	all := []whyShown{}
	missing := false
	for len(walk.next) > 0 {
		step := walk.take()
		why, err := queryReasons(ctx, daemon, step.id)
		var failed *wire.Error
		switch {
		case errors.As(err, &failed) && failed.Class == client.ClassJobLost:
			cli.PrintError(globals.Streams.Err, client.ErrUnknownJob(step.id).Error())
			missing = true
			continue
		case errors.As(err, &failed):
			cli.PrintError(globals.Streams.Err, fmt.Sprintf("job %d: %s", step.id, failed))
			missing = true
			continue
		case err != nil:
			return err
		}
		walk.add(why.inTheWay(), step.depth+1)
		all = append(all, why.shown(printer.now))
		if globals.JSON {
			continue
		}
		if len(all) > 1 {
			fmt.Fprintln(globals.Streams.Out)
		}
		printer.job(why)
	}
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, all); err != nil {
			return err
		}
	} else if walk.left > 0 {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf("%s more in the way of these, which --follow has not looked at", term.Count(walk.left, "job")))
	}
	if missing {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// queryReasons asks for one job. An unknown one is an error of the daemon's.
func queryReasons(ctx context.Context, daemon client.Querier, id int64) (jobWhy, error) {
	why := jobWhy{}
	if err := daemon.Query(ctx, "LockstepWhy", []any{id}, &why.Why); err != nil {
		return why, err
	}
	if why.Status == "" {
		return why, &wire.Error{Class: client.ClassJobLost}
	}
	return why, nil
}

// whyWalk is the jobs that are still to be asked for, nearest first, each once.
type whyWalk struct {
	follow bool
	next   []whyStep
	met    map[int64]bool
	left   int // were met, but are too far or too many
}

type whyStep struct {
	id    int64
	depth int
}

func (w *whyWalk) add(ids []int64, depth int) {
	for _, id := range ids {
		switch {
		case w.met[id] || depth > 0 && !w.follow:
			continue
		case depth > followDepth || depth > 0 && len(w.met)-w.left >= followJobs:
			w.left++
		default:
			w.next = append(w.next, whyStep{id, depth})
		}
		w.met[id] = true
	}
}

func (w *whyWalk) take() whyStep {
	step := w.next[0]
	w.next = w.next[1:]
	return step
}

// inTheWay is the jobs that this one cannot run before.
func (w jobWhy) inTheWay() []int64 {
	var ids []int64
	for _, reason := range w.reasons() {
		switch reason.Kind {
		case answer.WhyDependency:
			if !client.Final(reason.jobStatus()) && !reason.Unknown {
				ids = append(ids, reason.Job)
			}
		case answer.WhyLock:
			for _, blocker := range reason.Blockers {
				if isJob(blocker) {
					ids = append(ids, blocker.Job)
				}
			}
		}
	}
	return ids
}
