// Package order has the command order: the next jobs with their expected starts and ends, and the preview of a high
// priority. It has the texts for estimates, which the commands why and list also use.
package order

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/cmd/lockstep/internal/selection"
	"lockstep/core/answer"
	"lockstep/core/forecast"
)

// shownJobs is how many jobs are shown without --limit.
const shownJobs = 20

type options struct {
	High  string
	Limit int
}

// NewCommand is the command order.
func NewCommand(globals *cli.Globals) *cobra.Command {
	opts := options{}
	command := &cobra.Command{
		Use:   "order [flags]",
		Short: "Show which jobs come next, and when they are expected to start",
		Long: fmt.Sprintf(`Show the running jobs and the next %d pending ones in the order of their expected
starts: the likely start and end, each with a range; what the job waits for last, and
for how long. All times are estimates, from how long opcodes of each kind have taken.
Jobs that will be submitted, failures and changed rules are not in them. Last come as
many jobs that are not due, by their times: those with a start time (run --at) and
those between two tries (run --retry). They start at that time, or later. Jobs that
wait for other jobs are left out; "lockstep why --estimate ID" has them.
For jobs behind the first 1,000 candidates nothing is computed.

--high shows what would change if a pending job had high priority: its own start, and
the other jobs that would start at another time. It changes nothing; "lockstep priority
high ID" does.

Exit code: 0; 1 if the job of --high is not pending.
With --json: {"estimate": true, "order": string, "jobs": [ESTIMATE], "preview": null or
{"id": number, "now": ESTIMATE, "then": ESTIMATE, "changed": [{"now": ESTIMATE,
"then": ESTIMATE}]}}. ESTIMATE is {"id": number, "estimate": true, "running": bool,
"start", "end": null or {"from", "likely", "to": time}, "later_than": time or null,
"unknown", "unknown_of", "waits_for": string, "waits_for_jobs": [number]}, times as
RFC 3339. "unknown" is why a time is null: filter, hold, due, limit, foreign, no-history,
dependency, behind or order. "waits_for" is lock, slot, limit or dependency.`, shownJobs),
		Example: `  lockstep order
  lockstep order --limit 100
  lockstep order --high 12
  lockstep order --json | jq -r '.jobs[0].start.likely'`,
		Args: cli.WantArgs(0, 0, "order takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return run(command.Context(), opts, globals)
		},
		ValidArgsFunction: completion.Nothing,
	}
	command.Flags().StringVar(&opts.High, "high", "", "preview high priority for the job `ID|NAME`")
	command.Flags().IntVarP(&opts.Limit, "limit", "n", shownJobs,
		"only the first `N` pending jobs, and the first N that are not due; with --json all without it")
	completion.Flag(command, "high", completion.Jobs(globals, client.PendingStatuses()...))
	completion.Flag(command, "limit", completion.Nothing)
	return command
}

// document is the answer as --json prints it.
type document struct {
	Estimate bool     `json:"estimate"` // always true
	Order    string   `json:"order"`
	Jobs     []Shown  `json:"jobs"`
	Preview  *preview `json:"preview"`
}

type preview struct {
	ID      int64    `json:"id"`
	Now     Shown    `json:"now"`
	Then    Shown    `json:"then"`
	Changed []change `json:"changed"`
}

type change struct {
	Now  Shown `json:"now"`
	Then Shown `json:"then"`
}

func run(ctx context.Context, opts options, globals *cli.Globals) error {
	if opts.Limit < 1 {
		return cli.Usagef("--limit must be at least 1")
	}
	daemon := globals.Connect()
	defer daemon.Close()
	var high any
	if opts.High != "" {
		ids, err := selection.Newest(ctx, daemon, []string{opts.High})
		if err != nil {
			return err
		}
		high = ids[0]
	}
	var order answer.Order
	if err := daemon.Query(ctx, "LockstepOrder", []any{nil, high}, &order); err != nil {
		return fmt.Errorf("query the order of jobs: %w", err)
	}
	shown := documentOf(order)
	limit := opts.Limit
	if globals.JSON && limit == shownJobs {
		limit = len(shown.Jobs)
	}
	left := shown.cut(limit)
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, shown)
	}
	now := globals.Streams.Now()
	if len(shown.Jobs) == 0 {
		fmt.Fprintln(globals.Streams.Err, "no jobs")
		return nil
	}
	if shown.Preview != nil {
		shown.Preview.print(globals.Streams.Out, now, opts.Limit)
		return nil
	}
	ids := make([]int64, len(shown.Jobs))
	for i, job := range shown.Jobs {
		ids[i] = job.ID
	}
	fmt.Fprintln(globals.Streams.Out, shown.table(now, globals.Streams.Width, selection.Known(ctx, daemon, ids)))
	fmt.Fprintln(globals.Streams.Out, "All times are estimates.")
	if left > 0 {
		fmt.Fprintf(globals.Streams.Err, "%d more: --limit\n", left)
	}
	return nil
}

func documentOf(order answer.Order) document {
	d := document{Estimate: true, Order: order.Order, Jobs: []Shown{}}
	for _, e := range order.Jobs {
		d.Jobs = append(d.Jobs, shownOf(e))
	}
	if p := order.Preview; p != nil {
		d.Preview = &preview{ID: p.ID, Now: shownOf(p.Now), Then: shownOf(p.Then), Changed: []change{}}
		for _, c := range p.Changed {
			d.Preview.Changed = append(d.Preview.Changed, change{shownOf(c.Now), shownOf(c.Then)})
		}
	}
	return d
}

// cut keeps the first pending jobs, the first of those that are not due, and all running ones. It returns how many it leaves out.
func (d *document) cut(limit int) int {
	kept, pending, notDue := []Shown{}, 0, 0
	for _, job := range d.Jobs {
		of := &pending
		if job.Unknown == string(forecast.Due) {
			of = &notDue
		}
		if !job.Running {
			*of++
		}
		if job.Running || *of <= limit {
			kept = append(kept, job)
		}
	}
	left := len(d.Jobs) - len(kept)
	d.Jobs = kept
	return left
}

// table has a row for each job: its name, or else what it does.
func (d *document) table(now time.Time, width int, known map[int64]answer.ListedJob) string {
	var rows []table.Row
	for _, job := range d.Jobs {
		what := cmp.Or(term.Visible(known[job.ID].Name), cli.Work(known[job.ID].Summary))
		rows = append(rows, table.Row{strconv.FormatInt(job.ID, 10), term.OrDash(what), job.StartText(now),
			job.EndText(now), term.OrDash(job.WaitText(now))})
	}
	return term.NarrowTable(table.Row{"ID", "What", "Start", "End", "Waits for"}, rows, []int{4, 1}, nil, width)
}

func (p *preview) print(out io.Writer, now time.Time, limit int) {
	fmt.Fprintf(out, "Estimates for job %d: as it is, %s.\n", p.ID, p.Now.clauses(now))
	fmt.Fprintf(out, "With high priority, %s.\n", p.Then.clauses(now))
	if len(p.Changed) == 0 {
		fmt.Fprintln(out, "No other job is expected to start at another time.")
		return
	}
	fmt.Fprintf(out, "%s would start at another time:\n", term.Count(len(p.Changed), "other job"))
	for _, c := range p.Changed[:min(len(p.Changed), limit)] {
		by, word := c.Then.Start.Likely.Sub(c.Now.Start.Likely.Time), "later"
		if by < 0 {
			by, word = -by, "earlier"
		}
		start := c.Then.Start.Likely.Truncate(time.Second)
		fmt.Fprintf(out, "  job %d  %s %s, at %s\n", c.Now.ID, term.Span(by), word, term.WallClock(now, start))
	}
	if more := len(p.Changed) - limit; more > 0 {
		fmt.Fprintf(out, "  and %d more\n", more)
	}
}
