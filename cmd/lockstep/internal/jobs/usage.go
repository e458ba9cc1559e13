package jobs

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"lockstep/cmd/internal/term"
	"lockstep/cmd/lockstep/internal/cli"
	"lockstep/cmd/lockstep/internal/client"
	"lockstep/cmd/lockstep/internal/completion"
	"lockstep/core/job"
	"lockstep/core/usage"
)

const (
	usageMethod = "LockstepUsage"
	// usageTime is how long the command reads jobs.
	usageTime = time.Minute
	// usageGroups is how many groups it shows without --limit.
	usageGroups = 50
	usageSince  = 30 * term.Day
)

type usageOptions struct {
	by    string
	since time.Duration
	limit int
}

// NewUsageCommand is the command usage.
func NewUsageCommand(globals *cli.Globals) *cobra.Command {
	opts := usageOptions{since: usageSince}
	command := &cobra.Command{
		Use:   "usage [flags]",
		Short: "Show how long jobs have waited and run, and what they have used",
		Long: `Show how long jobs have waited and run, and how much CPU time and memory they have
used, by their name, their user or their opcode: all jobs that were submitted in the last
30 days (--since), also those that have not ended, and archived ones while the archive
has them.

"Wait" is from when a job could start, by its submission or its --at, until its command
began: it waits for locks, a slot, other jobs and rules. "Run" is from then to its end, with
the pauses between its tries. "50%" is the median, and "90%" what nine of ten jobs do not
exceed; both are exact to 1%, the maximum is exact. "CPU" is the sum of all commands,
"Memory" the peak of a command, as "lockstep info" shows it; commands of older versions
are not counted there. "Failed" jobs have the status error.

With --by opcode opcodes are counted instead of jobs, except those that never began because
one before them failed. Then "Wait" of a later opcode is from the end of the one before it.

Shown are the 50 groups with the most jobs (--limit); those of all others are together.
From the newest job on, the first 1,000 names are told apart.

The daemon reads the files of the jobs, the newest first. After a minute the command
stops, says how far back it got, and exits with 1; the table has the jobs up to there. To
see jobs of all users needs the role read, as "lockstep list" does.

With --json: {"by": string, "since": time, "back_to": time, "complete": bool, "unreadable":
number, "groups": [group], "others": group or null}, of which "back_to" is when the oldest
job that was read was submitted, and "unreadable" counts jobs whose file cannot be read. A
group is {"name": string, "jobs", "failures": number, "wait_seconds", "run_seconds":
quantiles, "measured", "cpu_seconds": number, "memory_peak_bytes": quantiles}; "name" is
the name, user or opcode, "measured" is of how many it is known what they have used, and
quantiles are {"median", "p90", "max": number} or null.`,
		Example: `  lockstep usage
  lockstep usage --by user --since 7d
  lockstep usage --by opcode --limit 0
  lockstep usage --by name --since 1d --json | jq '.groups[] | [.name, .cpu_seconds]'`,
		Args: cli.WantArgs(0, 0, "usage takes no arguments, only flags"),
		RunE: func(command *cobra.Command, _ []string) error {
			return runUsage(command.Context(), opts, globals)
		},
		ValidArgsFunction: completion.Nothing,
	}
	flags := command.Flags()
	flags.StringVar(&opts.by, "by", string(usage.ByName), "what jobs are grouped by: `name|user|opcode`")
	flags.Var(term.DurationFlag{Value: &opts.since}, "since", "jobs submitted in the last `DURATION`, like 2h or 30d")
	flags.Lookup("since").DefValue = "30d"
	flags.IntVarP(&opts.limit, "limit", "n", usageGroups, "only the `N` groups with the most jobs; 0 means all")
	bys := make([]string, len(usage.Bys))
	for i, by := range usage.Bys {
		bys[i] = string(by)
	}
	completion.Flag(command, "by", cobra.FixedCompletions(bys, cobra.ShellCompDirectiveNoFileComp))
	completion.Flag(command, "since", completion.Nothing)
	completion.Flag(command, "limit", completion.Nothing)
	return command
}

// usageRead is what was read of the jobs.
type usageRead struct {
	summary    *usage.Summary
	backTo     time.Time // when the oldest job that was read was submitted; zero: none was
	complete   bool
	examined   int
	unreadable int
}

// usageReport is the answer with --json.
type usageReport struct {
	By         string           `json:"by"`
	Since      client.Timestamp `json:"since"`
	BackTo     client.Timestamp `json:"back_to"`
	Complete   bool             `json:"complete"`
	Unreadable int              `json:"unreadable"`
	Groups     []usage.Group    `json:"groups"`
	Others     *usage.Group     `json:"others"`
}

func runUsage(ctx context.Context, opts usageOptions, globals *cli.Globals) error {
	switch {
	case !slices.Contains(usage.Bys, usage.By(opts.by)):
		return cli.Usagef("--by: %q is none of name, user, opcode", opts.by)
	case opts.limit < 0:
		return cli.Usagef("--limit must not be negative")
	}
	now := globals.Streams.Now()
	since := now.Add(-opts.since)
	read, err := readUsage(ctx, globals, usage.By(opts.by), since)
	if err != nil {
		return err
	}
	groups, others := read.summary.Groups(opts.limit)
	switch {
	case globals.JSON:
		err = cli.PrintJSON(globals.Streams.Out, usageReport{By: opts.by, Since: client.Timestamp{Time: since},
			BackTo: client.Timestamp{Time: read.backTo}, Complete: read.complete, Unreadable: read.unreadable, Groups: groups, Others: others})
	case len(groups) == 0:
		fmt.Fprintln(globals.Streams.Err, "no jobs")
	default:
		fmt.Fprintln(globals.Streams.Out, usageTable(opts.by, groups, others, globals.Streams.Width))
	}
	if read.unreadable > 0 {
		fmt.Fprintf(globals.Streams.Err, "lockstep: not counted: %s whose file cannot be read\n", term.Count(read.unreadable, "job"))
	}
	if err == nil && !read.complete {
		err = fmt.Errorf("stopped after a minute: jobs submitted before %s are not counted; a shorter --since takes less time",
			read.backTo.In(now.Location()).Format("2006-01-02 15:04:05"))
	}
	return err
}

// readUsage asks for all pages, or for those that the daemon gives within usageTime.
func readUsage(ctx context.Context, globals *cli.Globals, by usage.By, since time.Time) (usageRead, error) {
	daemon := globals.Connect()
	defer daemon.Close()
	line := &term.StatusLine{Out: globals.Streams.Err, On: globals.ShowsProgress()}
	defer line.Clear()
	over := globals.Streams.After(usageTime)
	read := usageRead{summary: usage.NewSummary(by)}
	query := usage.Query{SinceUS: max(since.UnixMicro(), 0)}
	for {
		var page usage.Page
		if err := daemon.Query(ctx, usageMethod, []any{query}, &page); err != nil {
			return read, err
		}
		for _, j := range page.Jobs {
			read.summary.Add(j)
		}
		read.examined, read.unreadable = read.examined+page.Examined, read.unreadable+page.Unreadable
		if page.OldestUS > 0 {
			read.backTo = time.UnixMicro(page.OldestUS)
		}
		if page.Cursor == 0 {
			read.complete = true
			return read, nil
		}
		query.Cursor = page.Cursor
		select {
		case <-over:
			return read, nil
		default:
			line.Set(fmt.Sprintf("%s jobs read, back to %s", thousands(read.examined), read.backTo.In(since.Location()).Format("2006-01-02 15:04")))
		}
	}
}

// usageTable has a row for each group, and one for the others.
func usageTable(by string, groups []usage.Group, others *usage.Group, width int) string {
	titles := map[string]string{"name": "Name", "user": "User", "opcode": "Opcode"}
	header := table.Row{"Jobs", "Failed", titles[by], "Wait 50%", "90%", "max", "Run 50%", "90%", "max", "CPU", "Memory 50%", "max"}
	if by == string(usage.ByOpcode) {
		header[0] = "Opcodes"
	}
	var rows []table.Row
	for _, g := range groups {
		rows = append(rows, usageRow(g, term.OrDash(term.Visible(g.Name))))
	}
	if others != nil {
		rows = append(rows, usageRow(*others, "(others)"))
	}
	const name, waitP90, waitMax, runP90, runMax, memoryMedian = 2, 4, 5, 7, 8, 10
	return term.NarrowTable(header, rows, []int{name}, []int{waitP90, runP90, memoryMedian, waitMax, runMax}, width)
}

func usageRow(g usage.Group, name string) table.Row {
	row := table.Row{strconv.Itoa(g.Jobs), strconv.Itoa(g.Failures), name}
	for _, q := range []*usage.Quantiles{g.Wait, g.Run} {
		if q == nil {
			row = append(row, "-", "-", "-")
			continue
		}
		row = append(row, seconds(q.Median), seconds(q.P90), seconds(q.Max))
	}
	if g.Measured == 0 {
		row = append(row, "-")
	} else {
		row = append(row, seconds(g.CPU))
	}
	if g.Memory == nil {
		return append(row, "-", "-")
	}
	return append(row, job.SizeText(int64(g.Memory.Median)), job.SizeText(int64(g.Memory.Max)))
}

func seconds(s float64) string { return term.Span(time.Duration(s * float64(time.Second))) }
