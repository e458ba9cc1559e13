package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

type listOptions struct {
	Status []string
	Limit  int
	All    bool

	Pending bool // adds to Status
}

func newListCommand(globals *globalOptions) *cobra.Command {
	opts := listOptions{}
	command := &cobra.Command{
		Use:   "list [flags]",
		Short: "List jobs, newest last",
		Long: `List the jobs of the queue, newest last. Archived ones are left out unless --all
is given. With --pending it says of each job in a few words why it waits; "lockstep
why ID" says more, and what can be done.

With --json: a list of {"id": number, "status": string, "priority": number,
"summary": [string], "received": time, "started": time, "ended": time,
"archived": bool, "why": string}, times as RFC 3339 or null. "archived" is only
looked up with --all, "why" is only there with --pending.`,
		Example: `  lockstep list
  lockstep list --pending
  lockstep list --status waiting,running
  lockstep list --all --limit 20
  lockstep list --json --status error | jq '.[].id'`,
		Args: wants(0, 0, "list takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), opts, globals)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&opts.Status, "status", "s", nil,
		"only jobs with one of these `STATUSES`: "+strings.Join(allStatuses(), ", "))
	flags.BoolVar(&opts.Pending, "pending", false,
		"the same as --status "+strings.Join(pendingStatuses(), ",")+", and why they wait")
	flags.IntVarP(&opts.Limit, "limit", "n", 0, "only the newest `N` of them (default all)")
	flags.BoolVarP(&opts.All, "all", "a", false, "include archived jobs")
	return command
}

// listedJob is a job as `list --json` prints it.
type listedJob struct {
	ID       int64    `json:"id"`
	Status   string   `json:"status"`
	Priority int      `json:"priority"`
	Summary  []string `json:"summary"`
	Received stamp    `json:"received"`
	Started  stamp    `json:"started"`
	Ended    stamp    `json:"ended"`
	Archived bool     `json:"archived"`
	// Why says what a pending job waits for, "" if nothing is known; nil if nobody asked.
	Why *string `json:"why,omitempty"`
}

func runList(ctx context.Context, opts listOptions, globals *globalOptions) error {
	for _, status := range opts.Status {
		if !slices.Contains(allStatuses(), status) {
			return usagef("--status: %q is none of %s", status, strings.Join(allStatuses(), ", "))
		}
	}
	if opts.Pending {
		opts.Status = append(opts.Status, pendingStatuses()...)
	}
	if opts.Limit < 0 {
		return usagef("--limit must not be negative")
	}
	daemon := globals.connect()
	defer daemon.close()
	jobs, err := fetchList(ctx, daemon, opts)
	if err != nil {
		return err
	}
	// A list without reasons is still a list: the error comes after it.
	var why error
	if opts.Pending {
		why = fillReasons(ctx, daemon, jobs)
	}
	streams := globals.streams
	switch {
	case globals.JSON:
		return errors.Join(printJSON(streams.Out, jobs), why)
	case len(jobs) == 0:
		fmt.Fprintln(streams.Err, "no jobs")
	case opts.Pending:
		fmt.Fprintln(streams.Out, pendingTable(jobs, streams.Now(), globals.palette(), streams.Width))
	default:
		fmt.Fprintln(streams.Out, listTable(jobs, streams.Now(), globals.palette(), streams.Width))
	}
	return why
}

// fetchList returns the jobs that opts select, oldest first; never nil.
func fetchList(ctx context.Context, daemon asker, opts listOptions) ([]listedJob, error) {
	fields := []string{"id", "status", "priority", "summary", "received_ts", "start_ts", "end_ts"}
	if opts.All {
		fields = append(fields, "archived") // asking for it makes archived jobs appear (queue.md 2.5)
	}
	rows, err := queryJobs(ctx, daemon, nil, fields...)
	if err != nil {
		return nil, err
	}
	jobs := []listedJob{}
	for _, row := range rows {
		job, err := decodeListed(row)
		if err != nil {
			return nil, err
		}
		// A job that is archived just now has no status any more: it is not here.
		if job.Status != "" && (len(opts.Status) == 0 || slices.Contains(opts.Status, job.Status)) {
			jobs = append(jobs, job)
		}
	}
	if opts.Limit > 0 && len(jobs) > opts.Limit {
		jobs = jobs[len(jobs)-opts.Limit:]
	}
	return jobs, nil
}

func decodeListed(row []json.RawMessage) (listedJob, error) {
	job := listedJob{Summary: []string{}}
	targets := []any{&job.ID, &job.Status, &job.Priority, &job.Summary, &job.Received, &job.Started, &job.Ended,
		&job.Archived}
	return job, scan(row, targets[:len(row)]...)
}

// summaryColumn is where the summary stands among listHeader.
const summaryColumn = 3

func listHeader() table.Row {
	return table.Row{"ID", "Status", "Priority", "Summary", "Received", "Started", "Took"}
}

// listOptional are the columns that a narrow terminal does without: priority, times of
// reception and start, duration.
func listOptional() []int { return []int{2, 4, 5, 6} }

// listTable renders the table; width is that of the terminal in columns, 0 for no
// terminal, where nothing is cut.
func listTable(jobs []listedJob, now time.Time, colours palette, width int) string {
	rows := make([]table.Row, 0, len(jobs))
	for _, job := range jobs {
		rows = append(rows, listRow(job, now, colours))
	}
	return narrowTable(listHeader(), rows, []int{summaryColumn}, listOptional(), width)
}

func listRow(job listedJob, now time.Time, colours palette) table.Row {
	received, started, took := "-", "-", "-"
	if !job.Received.IsZero() {
		received = ago(now, job.Received.Time)
	}
	if !job.Started.IsZero() {
		started = wallClock(now, job.Started.Time)
		switch {
		case !job.Ended.IsZero():
			took = span(job.Ended.Sub(job.Started.Time))
		case !final(job.Status):
			took = span(now.Sub(job.Started.Time)) + "…"
		}
	}
	return table.Row{strconv.FormatInt(job.ID, 10), statusText(colours, job.Status), priorityName(job.Priority),
		summarize(job.Summary), received, started, took}
}
