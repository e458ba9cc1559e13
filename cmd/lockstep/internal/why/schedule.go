package why

import (
	"context"
	"errors"
	"fmt"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/core/answer"
	"lockstep/core/why"
	"lockstep/core/wire"
)

// scheduleShown is a schedule as --json prints it.
type scheduleShown struct {
	Schedule string               `json:"schedule"`
	State    string               `json:"state"`
	Next     client.Timestamp     `json:"next_ts"`
	Reasons  []why.ScheduleReason `json:"reasons"`
}

// inTheWay are the jobs because of which due times are skipped or wait.
func (s scheduleShown) inTheWay() []int64 {
	for _, r := range s.Reasons {
		if r.Kind == why.ScheduleOverlap {
			return r.Jobs
		}
	}
	return nil
}

// schedules asks why schedules have not run, and prints the answers unless they are wanted as JSON. unknown: one does not exist.
func (p whyPrinter) schedules(
	ctx context.Context, daemon client.Querier, globals *cli.Globals, names []string,
) (all []scheduleShown, unknown bool, err error) {
	var status answer.QueueStatus
	if err := daemon.Query(ctx, "LockstepStatus", []any{}, &status); err != nil {
		return nil, false, err
	}
	for _, name := range names {
		var known answer.Schedules
		err := daemon.Query(ctx, "LockstepSchedules", []any{name}, &known)
		var failed *wire.Error
		switch {
		case errors.As(err, &failed):
			cli.PrintError(globals.Streams.Err, client.Explain(err))
			unknown = true
			continue
		case err != nil:
			return nil, false, err
		case len(known.Schedules) != 1:
			return nil, false, fmt.Errorf("asked for schedule %s, the daemon answered with %d", name, len(known.Schedules))
		}
		s := known.Schedules[0]
		all = append(all, scheduleShown{s.Name, s.State, client.Timestamp(s.Next), Style.ScheduleReasons(s, status.Drained, p.now)})
		if globals.JSON {
			continue
		}
		if len(all) > 1 {
			fmt.Fprintln(p.out)
		}
		p.scheduleText(all[len(all)-1])
	}
	return all, unknown, nil
}

func (p whyPrinter) scheduleText(s scheduleShown) {
	fmt.Fprintf(p.out, "%s is %s.\n", p.colours.Title("Schedule "+term.Visible(s.Schedule)), term.Visible(s.State))
	for _, r := range s.Reasons {
		fmt.Fprintln(p.out, "- "+r.Sentence)
	}
	p.hints(s.hints(p.follow))
}

// hints are the commands that change the situation of a schedule or show details.
func (s scheduleShown) hints(follow bool) (all []hint) {
	name := term.Visible(s.Schedule)
	for _, r := range s.Reasons {
		switch r.Kind {
		case why.SchedulePaused:
			all = append(all, hint{"lockstep schedule resume " + name, "let it go on from now"})
		case why.ScheduleStopped:
			all = append(all, hint{"lockstep schedule resume " + name, "start it from now"})
		case why.ScheduleDrained:
			all = append(all, hint{"lockstep drain off", "let the queue take jobs"})
		case why.ScheduleOverlap:
			if !follow { // which shows what this would show
				all = append(all, hint{fmt.Sprintf("lockstep why %d", r.Jobs[0]), fmt.Sprintf("why job %d has not ended", r.Jobs[0])})
			}
		}
	}
	return append(all, hint{"lockstep schedule history " + name, "what became of its due times"},
		hint{"lockstep schedule run " + name, "submit its jobs now"})
}
