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
		Args: cli.WantArgs(0, 0, "list takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), opts, globals)
		},
	}
	flags := command.Flags()
	flags.StringSliceVarP(&opts.Status, "status", "s", nil,
		"only jobs with one of these `STATUSES`: "+strings.Join(client.AllStatuses(), ", "))
	flags.BoolVar(&opts.Pending, "pending", false,
		"the same as --status "+strings.Join(client.PendingStatuses(), ",")+", and why they wait")
	flags.IntVarP(&opts.Limit, "limit", "n", 0, "only the newest `N` of them (default all)")
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
	// Why says what a pending job waits for, "" if nothing is known; nil if it was not asked for.
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
	// A list without reasons is still a list: the error comes after it.
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

// FetchList returns the jobs that opts select, oldest first; never nil.
func FetchList(ctx context.Context, daemon client.Querier, opts ListOptions) ([]ListedJob, error) {
	fields := []string{"id", "status", "priority", "summary", "received_ts", "start_ts", "end_ts"}
	if opts.All {
		fields = append(fields, "archived") // asking for it makes archived jobs appear (queue.md 2.5)
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
		// A job that was archived just now has no status: it is left out.
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

// summaryColumn is where the summary stands among listHeader.
const summaryColumn = 3

func listHeader() table.Row {
	return table.Row{"ID", "Status", "Priority", "Summary", "Received", "Started", "Took"}
}

// listOptional are the columns that a narrow terminal does without: priority, times of
// reception and start, duration.
func listOptional() []int { return []int{2, 4, 5, 6} }

// ListTable renders the table; width is that of the terminal in columns, 0 for no
// terminal, where nothing is cut.
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
