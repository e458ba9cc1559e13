package schedules

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
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
	"lockstep/core/answer"
	"lockstep/core/calendar"
	"lockstep/core/opcode"
	"lockstep/core/schedule"
	"lockstep/core/words"
)

// fetch asks for one schedule, with its jobs and its history. zones says which zone data the daemon uses.
func fetch(ctx context.Context, daemon client.Querier, name string) (s answer.Schedule, zones string, err error) {
	var all answer.Schedules
	if err := daemon.Query(ctx, "LockstepSchedules", []any{name}, &all); err != nil {
		return s, "", err
	}
	if len(all.Schedules) != 1 {
		return s, "", fmt.Errorf("asked for schedule %s, the daemon answered with %d", name, len(all.Schedules))
	}
	return all.Schedules[0], all.ZoneData, nil
}

// keyOrder is the order of the keys of a schedule with --json.
var keyOrder = map[string][]string{"": {"name"}, "schedules": {"name"}}

const scheduleJSONHelp = `{"name", "cron", "tz" or "every": seconds, "anchor_ts", "overlap", "catch_up",
"catch_up_within": seconds, "jitter": seconds, "state": "active", "paused", "stopped" or
"broken", "why": string if it is none of the first two, "until_ts": end of the pause, "owner",
"owner_key": like "uid=1000", "made_by": who has defined it, "next_ts",
"running": [id], "last": {"due_ts", "jobs", "missed", "skipped", "by"}, "last_end": {"job",
"end_ts", "result": "" or what went wrong}, "last_success_ts", "missed": number}, times as RFC 3339 or null`

func newListCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the schedules",
		Long: `List the schedules: when each fires next, and what became of its last due time.

With --json: {"zone_data": string, "schedules": [` + scheduleJSONHelp + `]}`,
		Example: `  lockstep schedule list
  lockstep schedule list --json | jq '.schedules[] | select(.missed > 0).name'`,
		Args: cli.WantArgs(0, 0, `schedule list takes no arguments; "lockstep schedule show NAME" shows one`),
		RunE: func(command *cobra.Command, _ []string) error {
			daemon := globals.Connect()
			defer daemon.Close()
			var all answer.Schedules
			if err := daemon.Query(command.Context(), "LockstepSchedules", []any{nil}, &all); err != nil {
				return err
			}
			if globals.JSON {
				return printDocument(globals, all)
			}
			return printList(globals, all.Schedules)
		},
	}
}

func printDocument(globals *cli.Globals, value any) error {
	document, err := cli.Document(value, keyOrder)
	if err != nil {
		return err
	}
	return cli.PrintJSON(globals.Streams.Out, document)
}

func printList(globals *cli.Globals, all []answer.Schedule) error {
	if len(all) == 0 {
		fmt.Fprintln(globals.Streams.Out, `There is no schedule. "lockstep schedule add" adds one.`)
		return nil
	}
	now := globals.Streams.Now()
	rows := make([]table.Row, len(all))
	for i, s := range all {
		next := "-"
		if !s.Next.IsZero() {
			next = "in " + term.Span(s.Next.Sub(now))
		}
		rows[i] = table.Row{term.Visible(s.Name), term.Visible(words.When(s)), next, term.Visible(lastText(now, s)), s.Overlap,
			stateText(globals, s)}
	}
	header := table.Row{"Name", "When", "Next", "Last", "Overlap", "State"}
	fmt.Fprintln(globals.Streams.Out, term.TextTable(header, rows, []int{3, 1}, globals.Streams.Width))
	return nil
}

// definitionOf is the definition of a schedule without its jobs.
func definitionOf(s answer.Schedule) schedule.Definition {
	return schedule.Definition{Name: s.Name, Cron: s.Cron, EveryUs: words.Seconds(s.EverySecs).Microseconds(), Zone: s.Zone,
		Overlap: schedule.Overlap(s.Overlap), CatchUp: schedule.CatchUp(s.CatchUp),
		WithinUs: words.Seconds(s.WithinSecs).Microseconds(), JitterUs: words.Seconds(s.JitterSecs).Microseconds()}
}

// fileOf has the rule and the jitter of a schedule.
func fileOf(s answer.Schedule) *schedule.File {
	return &schedule.File{Definition: definitionOf(s), AnchorUs: s.Anchor.UnixMicro()}
}

// stateText is the state of a schedule. The reason of one that does not fire is in show.
func stateText(globals *cli.Globals, s answer.Schedule) string {
	if s.State == "paused" && !s.Until.IsZero() {
		return "paused until " + term.WallClock(globals.Streams.Now(), s.Until.Time)
	}
	return s.State
}

// lastText says what became of the last due time.
func lastText(now time.Time, s answer.Schedule) string {
	if s.Last == nil {
		return "-"
	}
	text := term.Ago(now, s.Last.Due.Time)
	switch end := s.LastEnd; {
	case len(s.Last.Jobs) == 0:
		return text + ", " + words.DueTime(*s.Last)
	case end != nil && slices.Contains(s.Last.Jobs, end.Job):
		text += fmt.Sprintf(", job %d: %s", end.Job, words.ScheduleEnd(*end))
	default:
		text += ", " + jobsText(s.Last.Jobs)
	}
	if s.Last.Missed != "" {
		text += ", late: " + s.Last.Missed
	}
	return text
}

// jobsText names jobs: "job 12", "jobs 12-14".
func jobsText(ids []int64) string {
	numbers := make([]int, len(ids))
	for i, id := range ids {
		numbers[i] = int(id)
	}
	if len(ids) == 1 {
		return "job " + ranges(numbers)
	}
	return "jobs " + ranges(numbers)
}

// zoneOfSchedule is the zone in which the times of a schedule are shown: its own, or that of this machine.
func zoneOfSchedule(globals *cli.Globals, s answer.Schedule) *time.Location {
	if zone, err := calendar.LoadZone(s.Zone); err == nil {
		return zone
	}
	if zone, err := zoneOf(globals, ""); err == nil {
		return zone
	}
	return time.UTC
}

// nextText says when a schedule fires next.
func nextText(globals *cli.Globals, s answer.Schedule) string {
	if s.Next.IsZero() {
		return "at no known time"
	}
	zone := zoneOfSchedule(globals, s)
	return fmt.Sprintf("%s (%s), in %s", s.Next.In(zone).Format("Mon "+time.RFC3339), zone, term.Span(s.Next.Sub(globals.Streams.Now())))
}

// instantIn is a time as RFC 3339 in a zone; nil for the zero time.
func instantIn(t time.Time, zone *time.Location) *string {
	if t.IsZero() {
		return nil
	}
	text := t.In(zone).Format(time.RFC3339Nano)
	return &text
}

func newShowCommand(globals *cli.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show everything about a schedule",
		Long: `Show a schedule: its times, its jobs, what it does with jobs that overlap and with times
that were missed, and the version of the zone data that the daemon uses.

Exit code: 0; 1 if there is no such schedule.
With --json: ` + scheduleJSONHelp + `;
beside these "jobs": [{"name", "ops": [object]}], "upcoming": [{"due_ts"}], the next five due
times, "history": a list like "last", and "zone_data"`,
		Example: `  lockstep schedule show nightly`,
		Args:    cli.WantArgs(1, 1, "name one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			daemon := globals.Connect()
			defer daemon.Close()
			s, zones, err := fetch(command.Context(), daemon, args[0])
			if err != nil {
				return err
			}
			if globals.JSON {
				return printDocument(globals, struct {
					answer.Schedule
					ZoneData string `json:"zone_data"`
				}{s, zones})
			}
			return printSchedule(globals, s, zones)
		},
		ValidArgsFunction: oneSchedule(globals),
	}
}

func printSchedule(globals *cli.Globals, s answer.Schedule, zones string) error {
	out, now := globals.Streams.Out, globals.Streams.Now()
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(out, "%-14s%s\n", key+":", term.Visible(text))
		}
	}
	line("Name", s.Name)
	line("When", words.When(s))
	line("Next", nextText(globals, s))
	line("State", stateText(globals, s))
	line("Warning", s.Why)
	line("Owner", s.Owner)
	if s.MadeBy != s.Owner {
		line("Defined by", s.MadeBy)
	}
	line("Overlap", s.Overlap)
	line("Catch-up", s.CatchUp+", within "+words.FormatDuration(words.Seconds(s.WithinSecs)))
	if s.JitterSecs > 0 {
		jitter, below := fileOf(s).Jitter(), words.Seconds(s.JitterSecs)
		line("Jitter", fmt.Sprintf("%s of less than %s", words.FormatDuration(jitter), words.FormatDuration(below)))
	}
	if len(s.Running) > 0 {
		line("Not ended", jobsText(s.Running))
	}
	line("Last", lastText(now, s))
	if s.LastEnd != nil {
		line("Last end", fmt.Sprintf("%s, job %d: %s", term.Ago(now, s.LastEnd.End.Time), s.LastEnd.Job, words.ScheduleEnd(*s.LastEnd)))
	}
	if !s.Success.IsZero() {
		line("Last success", term.Ago(now, s.Success.Time))
	}
	line("Missed", term.Count(s.Missed, "due time"))
	line("Zone data", zones)
	for i, job := range s.Jobs {
		key := ""
		if i == 0 {
			key = "Jobs:"
		}
		fmt.Fprintf(out, "%-14s%s\n", key, jobText(job))
	}
	return nil
}

// jobText is what a job does in words.
func jobText(job answer.ScheduleJob) string {
	summaries := make([]string, len(job.Ops))
	for i, op := range job.Ops {
		encoded, err := json.Marshal(op)
		if err == nil {
			summaries[i] = opcode.Summary(encoded)
		}
	}
	text := strings.Join(summaries, ", then ")
	if job.Name != "" {
		text = job.Name + ": " + text
	}
	return term.Visible(text)
}

func newHistoryCommand(globals *cli.Globals) *cobra.Command {
	most := 20
	command := &cobra.Command{
		Use:   "history NAME [-n N]",
		Short: "Show what became of the due times of a schedule",
		Long: `Show what became of the last due times of a schedule, the newest last: the jobs that were
submitted, or why none was. "missed" has a reason that is not the schedule's own: the
daemon was down, the queue was drained or full. "late" has jobs that make up for a missed
time. "skipped" is what --overlap decides. The daemon keeps 100.

Exit code: 0; 1 if there is no such schedule.
With --json: a list of {"due": RFC 3339, "jobs": [id], "missed": string, "skipped": string,
"by": string}; a string is "" if it does not apply, and "by" is who ran the schedule by hand`,
		Example: `  lockstep schedule history nightly
  lockstep schedule history nightly -n 100 --json`,
		Args: cli.WantArgs(1, 1, "name one schedule"),
		RunE: func(command *cobra.Command, args []string) error {
			return runHistory(command.Context(), globals, args[0], most)
		},
		ValidArgsFunction: oneSchedule(globals),
	}
	command.Flags().IntVarP(&most, "number", "n", most, "show the last `N`")
	return command
}

// shownEntry is an entry of the history with --json.
type shownEntry struct {
	Due     *string `json:"due"`
	Jobs    []int64 `json:"jobs"`
	Missed  string  `json:"missed"`
	Skipped string  `json:"skipped"`
	By      string  `json:"by"`
}

func runHistory(ctx context.Context, globals *cli.Globals, name string, most int) error {
	if most < 1 {
		return cli.Usagef("-n is at least 1, not %d", most)
	}
	daemon := globals.Connect()
	defer daemon.Close()
	s, _, err := fetch(ctx, daemon, name)
	if err != nil {
		return err
	}
	zone := zoneOfSchedule(globals, s)
	last := s.History[max(0, len(s.History)-most):]
	shown := make([]shownEntry, len(last))
	rows := make([]table.Row, len(last))
	for i, e := range last {
		shown[i] = shownEntry{instantIn(e.Due.Time, zone), cli.OrEmpty(e.Jobs), e.Missed, e.Skipped, e.By}
		jobs := "-"
		if len(e.Jobs) > 0 {
			_, jobs, _ = strings.Cut(jobsText(e.Jobs), " ")
		}
		rows[i] = table.Row{e.Due.In(zone).Format("Mon " + time.RFC3339), jobs, term.Visible(words.DueTime(e))}
	}
	if globals.JSON {
		return cli.PrintJSON(globals.Streams.Out, shown)
	}
	return printHistory(globals.Streams.Out, rows, name, globals.Streams.Width)
}

func printHistory(out io.Writer, rows []table.Row, name string, width int) error {
	if len(rows) == 0 {
		fmt.Fprintf(out, "No due time of %s has come yet.\n", name)
		return nil
	}
	fmt.Fprintln(out, term.TextTable(table.Row{"Due", "Jobs", "What"}, rows, []int{2}, width))
	return nil
}

// oneSchedule completes the name of a schedule as the only argument.
func oneSchedule(globals *cli.Globals) completion.Func {
	return func(command *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return completion.Nothing(command, args, word)
		}
		return completion.Schedules(globals)(command, args, word)
	}
}

// idTexts are ids for people.
func idTexts(ids []int64) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, "\n")
}
