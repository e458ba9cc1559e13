package jobs

import (
	"context"
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
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/order"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/record"
	"lockstep/core/why"
)

// The numbers of jobs that list shows without --all and --limit.
const (
	shownUnfinished = 50
	shownEnded      = 20
)

type listOptions struct {
	selection.Flags
	Limit    int
	All      bool
	Archived bool
	Pending  bool // adds to Status
	Estimate bool
	Tree     bool
}

// NewListCommand is the command list.
func NewListCommand(globals *cli.Globals) *cobra.Command {
	opts := listOptions{}
	command := &cobra.Command{
		Use:     "list [flags]",
		Aliases: []string{"ps"},
		Short:   "List jobs, newest last",
		Long: fmt.Sprintf(`List jobs: the first %d that have not ended, running jobs first, then the last %d that
have, newest last. --all lists all jobs of the queue, in the order of their ids, and
--archived also jobs in the archive. --tree shows jobs that a job has submitted below
that job. --pending lists waiting jobs, each with a short
reason; "lockstep why ID" has details and remedies. --estimate adds when jobs are
expected to start and to end, for at most 1,000 jobs that have not ended.

%s
The column Result has the end of a job that did not succeed, or the try of a command
that is tried again (run --retry), and Progress what the
command of a job says with "lockstep progress". A running job "waits for
its reader" if its output waits for the command that follows it.

With --json all selected jobs are printed: a list of {"id": number, "name": string,
"status": string, "result": string, "user": string, "user_name": string,
"parent": number, "priority": number, "summary": [string], "received": time,
"started": time, "ended": time, "archived": bool, "reader_since": time,
"progress": {"percent": number or null, "text": string, "since": time,
"updated": time, "end": time}, "try": {"number": number, "most": number, "last": string},
"due": time, "why": string, "estimate": object}, times as RFC 3339 or null. "parent" is
the job whose process has submitted it, or 0. "reader_since" is present only if the
output waits for its reader, "progress" only if the command has said something, "end" of
it being the expected end of the command, "try" only for a command that may be tried
again, "last" of it being the end of the try before, "due" only if a waiting job starts
no earlier, "why" only with --pending, and "estimate", as "lockstep order --json" prints
it, only with --estimate.`, shownUnfinished, shownEnded, selection.Help),
		Example: `  lockstep list
  lockstep list --pending
  lockstep list --pending --estimate
  lockstep list --status waiting,running
  lockstep list --name 'backup-*' --since 2d
  lockstep list --tree --all
  lockstep list --failed --user alice --limit 5
  lockstep list --all --archived
  lockstep list --json --status error | jq '.[].id'`,
		Args: cli.WantArgs(0, 0, "list takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runList(command.Context(), opts, globals)
		},
		ValidArgsFunction: completion.Nothing,
	}
	opts.Register(globals, command)
	flags := command.Flags()
	flags.BoolVar(&opts.Pending, "pending", false,
		"the same as --status "+strings.Join(client.PendingStatuses(), ",")+", with the reason of each")
	flags.IntVarP(&opts.Limit, "limit", "n", 0, "only the newest `N` selected jobs")
	flags.BoolVarP(&opts.All, "all", "a", false, "all selected jobs, in the order of their ids")
	flags.BoolVar(&opts.Estimate, "estimate", false, "also the expected start and end of each job")
	flags.BoolVar(&opts.Archived, "archived", false, "also archived jobs")
	flags.BoolVar(&opts.Tree, "tree", false, "jobs that a job has submitted below that job")
	completion.Flag(command, "limit", completion.Nothing)
	return command
}

// ListedJob is a job as `list --json` prints it.
type ListedJob struct {
	ID       int64            `json:"id"`
	Name     string           `json:"name"`
	Status   string           `json:"status"`
	Result   string           `json:"result"`
	User     string           `json:"user"`
	UserName string           `json:"user_name"`
	Parent   int64            `json:"parent"` // the job that has submitted it; 0: none
	Priority int              `json:"priority"`
	Summary  []string         `json:"summary"`
	Received client.Timestamp `json:"received"`
	Started  client.Timestamp `json:"started"`
	Ended    client.Timestamp `json:"ended"`
	Archived bool             `json:"archived"`
	// ReaderSince is since when the output of a running job waits for its reader; nil: it does not.
	ReaderSince *client.Timestamp `json:"reader_since,omitempty"`
	// Progress is that of the command of the running opcode; nil: it has said nothing.
	Progress *cli.Progress `json:"progress,omitempty"`
	// Try is that of the opcode that runs, comes next, or has ended the job; nil: it is not tried again.
	Try *answer.Try `json:"try,omitempty"`
	// Due is when a pending job may start; nil: at once.
	Due *client.Timestamp `json:"due,omitempty"`
	// Why is the reason of a pending job, "" if unknown; nil without --pending.
	Why *string `json:"why,omitempty"`
	// Estimate is nil without --estimate, and if there is none.
	Estimate *order.Shown `json:"estimate,omitempty"`

	listed answer.ListedJob // the answer of the daemon
	depth  int              // below how many of the listed jobs it is, with --tree
}

// selection is the request of the command. The error is a *UsageError about flags that exclude each other.
func (o listOptions) selection(globals *cli.Globals) (answer.JobSelection, error) {
	s, err := o.Selection(globals.Streams.Now())
	switch {
	case err != nil:
		return s, err
	case o.Limit < 0:
		return s, cli.Usagef("--limit must not be negative")
	case o.All && o.Limit > 0:
		return s, cli.Usagef("--all and --limit exclude each other")
	}
	if o.Pending {
		s.Statuses = append(s.Statuses, client.PendingStatuses()...)
	}
	s.Archived, s.Limit = o.Archived, o.Limit
	if !o.All && o.Limit == 0 && !globals.JSON {
		s.MaxUnfinished, s.MaxEnded = shownUnfinished, shownEnded
	}
	return s, nil
}

func runList(ctx context.Context, opts listOptions, globals *cli.Globals) error {
	wanted, err := opts.selection(globals)
	if err != nil {
		return err
	}
	daemon := globals.Connect()
	defer daemon.Close()
	jobs, list, err := fetchList(ctx, daemon, wanted)
	if err != nil {
		return err
	}
	if opts.Tree {
		jobs = tree(jobs)
	}
	// The list is printed without reasons, then the error.
	var why error
	if opts.Pending {
		why = fillReasons(ctx, daemon, jobs)
	}
	if opts.Estimate {
		why = errors.Join(why, fillEstimates(ctx, daemon, jobs))
	}
	streams := globals.Streams
	switch {
	case globals.JSON:
		return errors.Join(cli.PrintJSON(streams.Out, jobs), why)
	case len(jobs) == 0:
		fmt.Fprintln(streams.Err, "no jobs")
	case opts.Pending:
		fmt.Fprintln(streams.Out, pendingTable(jobs, streams.Now(), globals.Palette(), streams.Width, opts.Estimate))
	case opts.Estimate:
		list := append(columns(jobs, streams.Now(), globals.Palette()), estimateColumns(streams.Now())...)
		fmt.Fprintln(streams.Out, renderTable(jobs, list, streams.Width))
	default:
		fmt.Fprintln(streams.Out, ListTable(jobs, streams.Now(), globals.Palette(), streams.Width))
	}
	if list.More > 0 && opts.Limit == 0 {
		fmt.Fprintf(streams.Err, "%s more: --all\n", thousands(list.More))
	}
	if list.Unread > 0 && opts.Limit == 0 {
		fmt.Fprintf(streams.Err, "%s older archived jobs were not examined: --all\n", thousands(list.Unread))
	}
	return why
}

// thousands is a number with commas between groups of three digits.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// FetchList returns the jobs of the queue, oldest first; never nil.
func FetchList(ctx context.Context, daemon client.Querier) ([]ListedJob, error) {
	jobs, _, err := fetchList(ctx, daemon, answer.JobSelection{})
	return jobs, err
}

// fetchList returns the selected jobs, never nil, and the answer for its numbers.
func fetchList(ctx context.Context, daemon client.Querier, wanted answer.JobSelection) ([]ListedJob, answer.JobList, error) {
	list, err := selection.List(ctx, daemon, wanted)
	if err != nil {
		return nil, list, err
	}
	jobs := make([]ListedJob, len(list.Jobs))
	for i, job := range list.Jobs {
		jobs[i] = ListedJob{ID: job.ID, Name: job.Name, Status: job.Status, Result: job.Result, User: job.User,
			UserName: record.User(job.User), Parent: job.Parent, Priority: job.Priority, Summary: cli.OrEmpty(job.Summary),
			Received: client.Timestamp(job.Received),
			Started:  client.Timestamp(job.Started), Ended: client.Timestamp(job.Ended), Archived: job.Archived,
			Progress: cli.ShownProgress(job.Progress), Try: job.Try, Due: (*client.Timestamp)(job.Due), listed: job}
	}
	for _, wait := range list.Readers {
		if i := slices.IndexFunc(jobs, func(j ListedJob) bool { return j.ID == wait.Job }); i >= 0 {
			since := client.Timestamp(wait.Since)
			jobs[i].ReaderSince = &since
		}
	}
	return jobs, list, nil
}

// statusText is the status of a job, and whether it cannot go on until its output is read.
func statusText(colours term.Palette, job ListedJob) string {
	text := cli.StatusText(colours, job.Status)
	if job.ReaderSince != nil {
		text += ", waits for its reader"
	}
	return text
}

// column is a column of the table of jobs.
type column struct {
	title string
	cell  func(job ListedJob) string
	wide  bool // may be cut on a terminal
	// rank: the columns with the lowest ranks above 0 are omitted first on a narrow terminal.
	rank int
}

// columns are the columns of the table: those for names, results and progress only if a job has one, that for priorities only if a job has
// another one than normal.
func columns(jobs []ListedJob, now time.Time, colours term.Palette) []column {
	list := []column{{title: "ID", cell: func(job ListedJob) string { return strconv.FormatInt(job.ID, 10) }}}
	if slices.ContainsFunc(jobs, func(job ListedJob) bool { return job.Name != "" }) {
		list = append(list, column{title: "Name", cell: func(job ListedJob) string { return term.OrDash(term.Visible(job.Name)) }})
	}
	list = append(list, column{title: "Status", cell: func(job ListedJob) string { return statusText(colours, job) }})
	note := func(job ListedJob) string {
		if job.Why != nil { // the column Why has it
			return job.Result
		}
		return why.Note(&job.listed, "", now)
	}
	if slices.ContainsFunc(jobs, func(job ListedJob) bool { return note(job) != "" }) {
		result := func(job ListedJob) string { return term.OrDash(term.Visible(note(job))) }
		list = append(list, column{title: "Result", wide: true, cell: result})
	}
	if slices.ContainsFunc(jobs, func(job ListedJob) bool { return job.listed.Progress != nil }) {
		list = append(list, column{title: "Progress", wide: true, cell: func(job ListedJob) string {
			if job.listed.Progress == nil {
				return "-"
			}
			return cli.ProgressText(job.listed.Progress, now)
		}})
	}
	if slices.ContainsFunc(jobs, func(job ListedJob) bool { return job.Priority != cli.PriorityNormal }) {
		priority := func(job ListedJob) string { return cli.PriorityName(job.Priority) }
		list = append(list, column{title: "Priority", rank: 1, cell: priority})
	}
	return append(list,
		column{title: "What", wide: true, cell: func(job ListedJob) string { return treeMark(job.depth) + cli.Work(job.Summary) }},
		column{title: "Received", rank: 2, cell: func(job ListedJob) string {
			if job.Received.IsZero() {
				return "-"
			}
			return term.Ago(now, job.Received.Time)
		}})
}

// ListTable renders the table. width is the width of the terminal in columns; 0: no terminal, and
// no cell is cut.
func ListTable(jobs []ListedJob, now time.Time, colours term.Palette, width int) string {
	return renderTable(jobs, append(columns(jobs, now, colours),
		column{title: "Started", rank: 3, cell: func(job ListedJob) string {
			if job.Started.IsZero() {
				return "-"
			}
			return term.WallClock(now, job.Started.Time)
		}},
		column{title: "Took", rank: 4, cell: func(job ListedJob) string {
			switch {
			case !job.Started.IsZero() && !job.Ended.IsZero():
				return term.Span(job.Ended.Sub(job.Started.Time))
			case !job.Started.IsZero() && !client.Final(job.Status):
				return term.Span(now.Sub(job.Started.Time)) + "…"
			}
			return "-"
		}}), width)
}

func renderTable(jobs []ListedJob, list []column, width int) string {
	var header table.Row
	var wide, optional []int
	for i, c := range list {
		header = append(header, c.title)
		if c.wide {
			wide = append(wide, i)
		}
		if c.rank > 0 {
			optional = append(optional, i)
		}
	}
	slices.SortFunc(optional, func(a, b int) int { return list[a].rank - list[b].rank })
	rows := make([]table.Row, len(jobs))
	for i, job := range jobs {
		for _, c := range list {
			rows[i] = append(rows[i], c.cell(job))
		}
	}
	return term.NarrowTable(header, rows, wide, optional, width)
}
