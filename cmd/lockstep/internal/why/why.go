// Package why has the command why: the reasons why a job does not run, and commands that change
// this. It has a sentence for each kind of reason.
package why

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/order"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/wire"
)

// The limits of --follow: links from a named job, and jobs in total.
const (
	followDepth = 10
	followJobs  = 50
)

type whyOptions struct {
	Follow   bool
	Estimate bool
	Schedule bool
}

// NewCommand is the command why.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := whyOptions{}
	command := &cobra.Command{
		Use:   "why [flags] ID|NAME...",
		Short: "Show why a job does not run, and what you can do",
		Long: fmt.Sprintf(`Show why a job does not run yet: the job or lock that it waits for, the owner of the
lock, the filter rule or limit that delays it, the number of jobs before it; and the
commands that change this. A job that runs or has ended is reported as such.
`+selection.ArgsHelp+`

With --estimate it also says when each job is expected to start and to end, as ranges.
The estimates come from how long opcodes of each kind have taken.

With --schedule the names are those of schedules: why a schedule has not run. It says
whether it is paused or stopped, whether the queue is drained, which of its jobs has not
ended, what became of its last due time, and when it fires next. Of a job of a schedule
"lockstep why ID" names the schedule. Without --schedule the name of a schedule stands
for its newest job, which has this name, too.

With --follow it continues with the jobs that block these jobs, and with their
blockers, up to %d links and %d jobs.

Exit code: 0, 1 if one of the jobs or schedules does not exist.
With --json: a list of {"id": number, "name": string, "status": string, "summary": [string],
"archived": bool, "reasons": [{"kind": string, "sentence": string, ...}]}, one for
each job that was named or followed. A reason has more keys, depending on its kind:
dependency, filter, filter-limit, rate-limit, slots, order, lock, starting,
cannot-start, cannot-write, reader, stopping, running or ended. Keys that end in _ts are
times as RFC 3339 or null. A job of a schedule has "schedule": {"name", "due_ts"}. With
--schedule: a list of {"schedule", "state": string, "next_ts": time, "reasons": [{"kind",
"sentence": string, "jobs": [number]}]}; kinds are broken, stopped, paused, failing,
drained, overlap, last and next. With --estimate a job that has not ended has "estimate", as
"lockstep order --json" prints it, with a "sentence".`, followDepth, followJobs),
		Example: `  lockstep why 12
  lockstep why --follow 12
  lockstep why --estimate 12
  lockstep why --schedule nightly
  lockstep why --json 12 | jq -r '.[0].reasons[].sentence'`,
		Args: cli.WantArgs(1, -1, "name at least one job, by its id or its name"),
		RunE: func(command *cobra.Command, args []string) error {
			return runWhy(command.Context(), opts, globals, args)
		},
		ValidArgsFunction: func(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if opts.Schedule {
				return completion.Schedules(globals)(command, args, prefix)
			}
			return completion.Jobs(globals)(command, args, prefix)
		},
	}
	command.Flags().BoolVarP(&opts.Schedule, "schedule", "s", false, "the names are those of schedules")
	command.Flags().BoolVarP(&opts.Follow, "follow", "r", false, "also show why blocking jobs do not run")
	command.Flags().BoolVarP(&opts.Estimate, "estimate", "e", false, "also show the expected start and end")
	return command
}

// jobWhy is the daemon's answer about one job.
type jobWhy struct {
	answer.Why
	estimate *order.Shown // nil: not asked for, or there is none
}

func (w jobWhy) reasons() []whyReason {
	reasons := make([]whyReason, len(w.Reasons))
	for i, reason := range w.Reasons {
		reasons[i] = whyReason{reason}
	}
	return reasons
}

func runWhy(ctx context.Context, opts whyOptions, globals *cli.Globals, args []string) error {
	if opts.Schedule && opts.Estimate {
		return cli.Usagef("--estimate is about jobs, not about schedules")
	}
	daemon := globals.Connect()
	defer daemon.Close()
	printer := whyPrinter{out: globals.Streams.Out, now: globals.Streams.Now(), colours: globals.Palette(), follow: opts.Follow}
	walk := whyWalk{follow: opts.Follow, met: map[int64]bool{}}
	all := []any{}
	missing := false
	if opts.Schedule {
		schedules, unknown, err := printer.schedules(ctx, daemon, globals, args)
		if err != nil {
			return err
		}
		for _, s := range schedules {
			walk.add(s.inTheWay(), 1)
			all = append(all, s)
		}
		missing = unknown
	} else {
		ids, err := selection.Newest(ctx, daemon, args)
		if err != nil {
			return err
		}
		walk.add(ids, 0)
	}
	known, missed, err := printer.jobs(ctx, daemon, globals, opts, &walk, len(all) > 0)
	if err != nil {
		return err
	}
	all, missing = append(all, known...), missing || missed
	if globals.JSON {
		if err := cli.PrintJSON(globals.Streams.Out, all); err != nil {
			return err
		}
	} else if walk.left > 0 {
		cli.PrintError(globals.Streams.Err, fmt.Sprintf("%s more block these; --follow has reached its limit", term.Count(walk.left, "job")))
	}
	if missing {
		return &cli.ExitError{Code: cli.ExitFailure}
	}
	return nil
}

// jobs queries the jobs of a walk, and prints the answers unless they are wanted as JSON. missing: a job does not exist. follows: another
// answer is printed before these.
func (p whyPrinter) jobs(
	ctx context.Context, daemon *client.Session, globals *cli.Globals, opts whyOptions, walk *whyWalk, follows bool,
) (all []any, missing bool, err error) {
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
			return nil, missing, err
		}
		if opts.Estimate && !client.Final(why.Status) {
			estimates, err := order.Query(ctx, daemon, []int64{step.id})
			if err != nil {
				return nil, missing, err
			}
			if e, known := estimates[step.id]; known {
				why.estimate = &e
			}
		}
		walk.add(why.inTheWay(), step.depth+1)
		all = append(all, why.shown(p.now))
		if globals.JSON {
			continue
		}
		if follows || len(all) > 1 {
			fmt.Fprintln(globals.Streams.Out)
		}
		p.job(why)
	}
	return all, missing, nil
}

// queryReasons queries one job. The daemon answers an error for an unknown job.
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

// whyWalk is the jobs that are still to be queried, nearest first, each once.
type whyWalk struct {
	follow bool
	next   []whyStep
	met    map[int64]bool
	left   int // number of jobs beyond the limits
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

// inTheWay are the ids of the jobs that block this job: by dependencies, in the order, or by locks.
func (w jobWhy) inTheWay() []int64 {
	var ids []int64
	for _, reason := range w.reasons() {
		switch reason.Kind {
		case answer.WhyDependency:
			if !client.Final(reason.jobStatus()) && !reason.Unknown {
				ids = append(ids, reason.Job)
			}
		case answer.WhyOrder:
			for _, blocker := range reason.BlockedBy {
				if blocker.Owner == "" {
					ids = append(ids, blocker.Job)
				}
			}
			if reason.ReservedBy != 0 {
				ids = append(ids, reason.ReservedBy)
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
