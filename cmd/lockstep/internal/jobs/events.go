package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/record"
)

// eventsShown is the number of events that are shown without --all and --limit.
const eventsShown = 50

type eventsOptions struct {
	selection.Flags
	Follow bool
	Limit  int
	Kinds  []string
}

// NewEventsCommand is the command events.
func NewEventsCommand(globals *cli.Globals) *cobra.Command {
	opts := eventsOptions{}
	command := &cobra.Command{
		Use:   "events [flags]",
		Short: "Show what has happened to jobs, and follow it",
		Long: fmt.Sprintf(`Show when jobs of the queue were submitted, were started and have ended: the last %d
such events, newest last. With --follow further events are printed as they happen,
until Ctrl-C: each change of a job's status, and jobs that are archived.

%s
A status or time in a flag selects the jobs of the past events; the other flags select
further events, too.

If events may be missing, because the daemon was restarted, a line on standard error
says so; the daemon keeps at most 10,000 events for a client that does not fetch them.

With --kinds job,lock,filter,schedule also the changes of locks, filter rules and
schedules are printed as they happen: what an owner holds and waits for; rules that are
added, replaced or deleted; schedules that are added, changed, removed, paused, resumed
or stopped, and due times that have jobs, are missed or skipped. Flags that select jobs
have no effect on them.

With --json, one object per line: {"time", "job", "name", "status", "result", "user",
"user_name", "summary"}, {"time", "job", "archived": true}, {"time", "lock": {"owner", "job",
"locks", "held", "pending", "wanted"}}, {"time", "filter": {"uuid", "change", "rule"}},
{"time", "schedule": {"name", "change", "due", "times", "jobs", "reason", "by", "until"}}.`, eventsShown, selection.Help),
		Example: `  lockstep events
  lockstep events --follow
  lockstep events --follow --kinds lock,filter
  lockstep events --follow --kinds schedule
  lockstep events --follow --json --name 'backup-*' | jq -r 'select(.status == "error").job'`,
		Args: cli.WantArgs(0, 0, "events takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runEvents(command.Context(), opts, globals)
		},
		ValidArgsFunction: completion.Nothing,
	}
	opts.Register(globals, command)
	command.Flags().BoolVarP(&opts.Follow, "follow", "f", false, "continue with new events")
	command.Flags().IntVarP(&opts.Limit, "limit", "n", eventsShown, "the last `N` past events")
	completion.Flag(command, "limit", completion.Nothing)
	command.Flags().StringSliceVar(&opts.Kinds, "kinds", []string{answer.EventJob},
		"with --follow: print events of these `KINDS`: job, lock, filter, schedule")
	completion.Flag(command, "kinds", cobra.FixedCompletions(answer.EventKinds(), cobra.ShellCompDirectiveNoFileComp))
	return command
}

// jobEvent is an event as --json prints it: the job got the status at the time.
type jobEvent struct {
	Time     client.Timestamp `json:"time"`
	Job      int64            `json:"job"`
	Name     string           `json:"name,omitempty"`
	Status   string           `json:"status,omitempty"`
	Result   string           `json:"result,omitempty"`
	User     string           `json:"user,omitempty"`
	UserName string           `json:"user_name,omitempty"`
	Summary  []string         `json:"summary,omitempty"`
	Archived bool             `json:"archived,omitempty"`
}

// eventOf is the event that a job gets a status at a time.
func eventOf(job answer.ListedJob, at client.Timestamp, status, result string) jobEvent {
	return jobEvent{
		Time:     at,
		Job:      job.ID,
		Name:     job.Name,
		Status:   status,
		Result:   result,
		User:     job.User,
		UserName: record.User(job.User),
		Summary:  job.Summary,
	}
}

// eventView prints events.
type eventView struct {
	globals *cli.Globals
	known   map[int64]string // status of the last printed event of a job
}

func runEvents(ctx context.Context, opts eventsOptions, globals *cli.Globals) error {
	wanted, err := opts.Selection(globals.Streams.Now())
	switch {
	case err != nil:
		return err
	case opts.Limit < 0:
		return cli.Usagef("--limit must not be negative")
	}
	if err := checkKinds(opts.Kinds, opts.Follow); err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	if opts.Follow { // subscribes, before the jobs are listed
		if err := daemon.Query(ctx, "LockstepEvents", opts.arguments(0), &answer.JobEvents{}); err != nil {
			return err
		}
	}
	list, err := selection.List(ctx, daemon, wanted)
	if err != nil {
		return err
	}
	view := &eventView{globals: globals, known: map[int64]string{}}
	var past []jobEvent
	if slices.Contains(opts.Kinds, answer.EventJob) {
		past = pastEvents(list.Jobs)
	}
	for _, e := range past[max(0, len(past)-opts.Limit):] {
		if err := view.show(e); err != nil {
			return err
		}
	}
	for _, job := range list.Jobs {
		view.known[job.ID] = job.Status
	}
	if !opts.Follow {
		return nil
	}
	return view.follow(ctx, daemon, opts)
}

// pastEvents are the events of jobs of which the daemon knows the time: submission, start and end, in order of time.
func pastEvents(jobs []answer.ListedJob) []jobEvent {
	var events []jobEvent
	for _, job := range jobs {
		add := func(at answer.Time, status, result string) {
			if !at.IsZero() {
				events = append(events, eventOf(job, client.Timestamp(at), status, result))
			}
		}
		add(job.Received, client.StatusQueued, "")
		add(job.Started, client.StatusRunning, "")
		for _, t := range job.Tries {
			add(t.End, client.StatusWaiting, t.Result)
		}
		if client.Final(job.Status) {
			add(job.Ended, job.Status, job.Result)
		}
	}
	slices.SortStableFunc(events, func(a, b jobEvent) int {
		return cmp.Or(a.Time.Compare(b.Time.Time), cmp.Compare(a.Job, b.Job))
	})
	return events
}

// eventsPoll is the time limit of one call, in seconds.
const eventsPoll = 60

// follow prints new events until an error ends it. Events that may be missing are reported on standard error.
func (v *eventView) follow(ctx context.Context, daemon *client.Session, opts eventsOptions) error {
	flags := opts.Flags
	flags.Status, flags.Failed, flags.Since = nil, false, 0
	for {
		var changes answer.JobEvents
		if err := daemon.Query(ctx, "LockstepEvents", opts.arguments(eventsPoll), &changes); err != nil {
			return err
		}
		if changes.Missed {
			cli.PrintError(v.globals.Streams.Err, "the daemon or the connection was restarted; events may be missing here")
		}
		for _, e := range changes.Others {
			if err := v.showOther(e); err != nil {
				return err
			}
		}
		if !slices.Contains(opts.Kinds, answer.EventJob) {
			continue
		}
		for _, job := range changes.Jobs {
			if v.known[job.ID] == job.Status || flags.Given() && !flags.Matches(job) {
				continue
			}
			v.known[job.ID] = job.Status
			at := client.Timestamp{Time: v.globals.Streams.Now()}
			if client.Final(job.Status) && !job.Ended.IsZero() {
				at = client.Timestamp(job.Ended)
			}
			result := job.Result
			if job.Due != nil && job.Try != nil {
				result = job.Try.Last // the event is the end of that try
			}
			if err := v.show(eventOf(job, at, job.Status, result)); err != nil {
				return err
			}
		}
		for _, id := range changes.Archived {
			_, shown := v.known[id]
			delete(v.known, id)
			if flags.Given() && !shown {
				continue
			}
			if err := v.show(jobEvent{Time: client.Timestamp{Time: v.globals.Streams.Now()}, Job: id, Archived: true}); err != nil {
				return err
			}
		}
	}
}

func (v *eventView) show(e jobEvent) error {
	streams := v.globals.Streams
	if v.globals.JSON {
		return v.showJSON(e)
	}
	what := cli.StatusText(v.globals.Palette(), e.Status)
	if e.Archived {
		what = "archived"
	}
	text := fmt.Sprintf("%s  job %d", term.FullClock(streams.Now(), e.Time.Truncate(time.Millisecond)), e.Job)
	if e.Name != "" {
		text += " " + term.Visible(e.Name)
	}
	text += ": " + what
	if e.Result != "" {
		text += ", " + term.Visible(e.Result)
	}
	if len(e.Summary) > 0 {
		text += "  " + cli.Work(e.Summary)
	}
	_, err := fmt.Fprintln(streams.Out, text)
	return err
}
