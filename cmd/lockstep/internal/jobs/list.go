package jobs

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

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
)

// ListOptions are the flags of the command list.
type ListOptions struct {
	Status []string
	Limit  int
	All    bool

	Pending bool // adds to Status
}

// NewListCommand is the command list.
func NewListCommand(globals *cli.Globals) *cobra.Command {
	opts := ListOptions{}
	command := &cobra.Command{
		Use:   "list [flags]",
		Short: "List jobs, newest last",
		Long: `List the jobs of the queue, newest last; with --all also archived jobs. --pending
lists waiting jobs, each with a short reason; "lockstep why ID" has details and
remedies.

With --json: a list of {"id": number, "status": string, "priority": number,
"summary": [string], "received": time, "started": time, "ended": time,
"archived": bool, "why": string}, times as RFC 3339 or null. "archived" can be true
only with --all; "why" is present only with --pending.`,
		Example: `  lockstep list
  lockstep list --pending
  lockstep list --status waiting,running
  lockstep list --all --limit 20
  lockstep list --json --status error | jq '.[].id'`,
		Args: cli.WantArgs(0, 0, "list takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), opts, globals)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&opts.Status, "status", "s", nil,
		"only jobs with one of these `STATUSES`: "+strings.Join(client.AllStatuses(), ", "))
	flags.BoolVar(&opts.Pending, "pending", false,
		"the same as --status "+strings.Join(client.PendingStatuses(), ",")+", with the reason of each")
	flags.IntVarP(&opts.Limit, "limit", "n", 0, "only the newest `N` (default all)")
	flags.BoolVarP(&opts.All, "all", "a", false, "include archived jobs")
	return command
}

// ListedJob is a job as `list --json` prints it.
type ListedJob struct {
	ID       int64            `json:"id"`
	Status   string           `json:"status"`
	Priority int              `json:"priority"`
	Summary  []string         `json:"summary"`
	Received client.Timestamp `json:"received"`
	Started  client.Timestamp `json:"started"`
	Ended    client.Timestamp `json:"ended"`
	Archived bool             `json:"archived"`
	// Why is the reason of a pending job, "" if unknown; nil without --pending.
	Why *string `json:"why,omitempty"`
}

func runList(ctx context.Context, opts ListOptions, globals *cli.Globals) error {
	for _, status := range opts.Status {
		if !slices.Contains(client.AllStatuses(), status) {
			return cli.Usagef("--status: %q is none of %s", status, strings.Join(client.AllStatuses(), ", "))
		}
	}
	if opts.Pending {
		opts.Status = append(opts.Status, client.PendingStatuses()...)
	}
	if opts.Limit < 0 {
		return cli.Usagef("--limit must not be negative")
	}
	daemon := globals.Connect()
	defer daemon.Close()
	jobs, err := FetchList(ctx, daemon, opts)
	if err != nil {
		return err
	}
	// The list is printed without reasons, then the error.
	var why error
	if opts.Pending {
		why = fillReasons(ctx, daemon, jobs)
	}
	streams := globals.Streams
	switch {
	case globals.JSON:
		return errors.Join(cli.PrintJSON(streams.Out, jobs), why)
	case len(jobs) == 0:
		fmt.Fprintln(streams.Err, "no jobs")
	case opts.Pending:
		fmt.Fprintln(streams.Out, pendingTable(jobs, streams.Now(), globals.Palette(), streams.Width))
	default:
		fmt.Fprintln(streams.Out, ListTable(jobs, streams.Now(), globals.Palette(), streams.Width))
	}
	return why
}

// FetchList returns the jobs selected by opts, oldest first; never nil.
func FetchList(ctx context.Context, daemon client.Querier, opts ListOptions) ([]ListedJob, error) {
	fields := []string{"id", "status", "priority", "summary", "received_ts", "start_ts", "end_ts"}
	if opts.All {
		fields = append(fields, "archived") // this field includes archived jobs (queue.md 2.5)
	}
	rows, err := client.QueryJobs(ctx, daemon, nil, fields...)
	if err != nil {
		return nil, err
	}
	jobs := []ListedJob{}
	for _, row := range rows {
		job, err := decodeListed(row)
		if err != nil {
			return nil, err
		}
		// A job that was archived during the query has no status: omit it.
		if job.Status != "" && (len(opts.Status) == 0 || slices.Contains(opts.Status, job.Status)) {
			jobs = append(jobs, job)
		}
	}
	if opts.Limit > 0 && len(jobs) > opts.Limit {
		jobs = jobs[len(jobs)-opts.Limit:]
	}
	return jobs, nil
}

func decodeListed(row []json.RawMessage) (ListedJob, error) {
	job := ListedJob{Summary: []string{}}
	targets := []any{&job.ID, &job.Status, &job.Priority, &job.Summary, &job.Received, &job.Started, &job.Ended,
		&job.Archived}
	return job, client.Scan(row, targets[:len(row)]...)
}

// summaryColumn is the index of the summary in listHeader.
const summaryColumn = 3

func listHeader() table.Row {
	return table.Row{"ID", "Status", "Priority", "Summary", "Received", "Started", "Took"}
}

// listOptional are the columns omitted on a narrow terminal: priority, times of submission and
// start, duration.
func listOptional() []int { return []int{2, 4, 5, 6} }

// ListTable renders the table. width is the width of the terminal in columns; 0: no terminal, and
// no cell is cut.
func ListTable(jobs []ListedJob, now time.Time, colours term.Palette, width int) string {
	rows := make([]table.Row, 0, len(jobs))
	for _, job := range jobs {
		rows = append(rows, listRow(job, now, colours))
	}
	return term.NarrowTable(listHeader(), rows, []int{summaryColumn}, listOptional(), width)
}

func listRow(job ListedJob, now time.Time, colours term.Palette) table.Row {
	received, started, took := "-", "-", "-"
	if !job.Received.IsZero() {
		received = term.Ago(now, job.Received.Time)
	}
	if !job.Started.IsZero() {
		started = term.WallClock(now, job.Started.Time)
		switch {
		case !job.Ended.IsZero():
			took = term.Span(job.Ended.Sub(job.Started.Time))
		case !client.Final(job.Status):
			took = term.Span(now.Sub(job.Started.Time)) + "…"
		}
	}
	return table.Row{strconv.FormatInt(job.ID, 10), cli.StatusText(colours, job.Status), cli.PriorityName(job.Priority),
		cli.Summarize(job.Summary), received, started, took}
}
